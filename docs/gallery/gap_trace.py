"""An interval that closes.

Both bounds of Newton's method for a linear ODM and of a first-order method, as relative gap against
seconds. The filled markers are the certificates.
"""

import matplotlib.pyplot as plt
from sklearn.preprocessing import scale

import svmcvx as sx

digits = sx.datasets.load("digits")
X, y = scale(digits.X), digits.y % 2
sx.fast.odml(X[:50], y[:50])  # compiles
solutions = {f"C = {C:g}": sx.fast.odml(X, y, C=C, tol=1e-9) for C in (1.0, 100.0, 10_000.0)}
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
sx.plot.gap_trace(solutions, ax=ax)
