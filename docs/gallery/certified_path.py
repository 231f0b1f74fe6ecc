"""The optimum for every C of a range.

A certified path proves an interval for each value, also between those that were solved.
"""

import matplotlib.pyplot as plt

import svmcvx as sx

moons = sx.datasets.load("moons")
path = sx.certified_path(
    sx.PSVMClassifier(kernel="rbf"), moons.X, moons.y, C=(0.1, 100.0), eps=0.02
)
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
sx.plot.certified_path(path, ax=ax)
