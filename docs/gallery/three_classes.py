"""Three classes in one problem."""

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA
from sklearn.preprocessing import scale

import svmcvx as sx

wine = sx.datasets.load("wine")
X = PCA(2).fit_transform(scale(wine.X))
machine = sx.M3SVMClassifier(lam=0.1, p=4).fit(X, wine.y)
figure, ax = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
sx.plot.decision_regions(machine, X, wine.y, ax=ax)
