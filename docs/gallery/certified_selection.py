"""The errors of cross-validation for every C of a range.

Between the lines are the errors that an optimal machine may make, for each C and not only for those
that were solved: no C has fewer than the dotted line.
"""

import matplotlib.pyplot as plt

import svmcvx as sx

moons = sx.datasets.load("moons")
found = sx.certified_select(sx.PSVMClassifier(), moons.X, moons.y, C=(0.01, 100.0), eps=0.02)
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
sx.plot.certified_selection(found, ax=ax)
