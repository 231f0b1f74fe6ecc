"""Accuracy and support vectors against the exponent."""

import matplotlib.pyplot as plt
from sklearn.preprocessing import scale

import svmcvx as sx

cancer = sx.datasets.load("breast_cancer")
X, y = scale(cancer.X), cancer.y
models = [sx.PSVMClassifier(p=p, kernel="rbf") for p in (1, 1.25, 1.5, 2, 3)]
table = sx.compare(models, X, y, split=0.5)
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
sx.plot.against_exponent(table, ax=ax)
