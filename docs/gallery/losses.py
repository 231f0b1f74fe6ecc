"""Losses of the signed margin.

The conic loss for three γ, among the losses that it is compared with.
"""

import svmcvx as sx

sx.plot.losses(gamma=(0.25, 1.0, 4.0))
