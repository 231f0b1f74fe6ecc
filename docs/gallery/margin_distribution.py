"""Distribution of the margins.

ODM and ODML make the margins alike: their curves are steeper than that of the hinge loss.
"""

import matplotlib.pyplot as plt
from sklearn.preprocessing import minmax_scale

import svmcvx as sx

cancer = sx.datasets.load("breast_cancer")
X = minmax_scale(cancer.X)
models = {
    "hinge": sx.PSVMClassifier(C=10.0).fit(X, cancer.y),
    "ODML": sx.ODMLClassifier(C=1000.0, lam1=10.0, lam2=1.0).fit(X, cancer.y),
    "ODM": sx.ODMClassifier(C1=1000.0, C2=1000.0, D=0.1).fit(X, cancer.y),
}
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
sx.plot.margin_distribution(models, X, cancer.y, ax=ax)
