"""Decision regions of four losses.

One observation in ten lies in a cluster on the wrong side. The hinge loss turns its boundary for
the cluster, bounded losses do not.
"""

import matplotlib.pyplot as plt

import svmcvx as sx

X, y = sx.synthetic.outlier_data(120, 2, sigma=0.2, outliers="clustered", seed=27)
models = {
    "hinge": sx.PSVMClassifier(C=1.0),
    "conic": sx.ConicSVMClassifier(lam=2.0),
    "exact 0-1": sx.ZeroOneSVMClassifier(lam=2.0, time_limit=10),
    "ODM": sx.ODMClassifier(C1=10.0, C2=10.0, D=0.2),
}
figure, axes = plt.subplots(2, 2, figsize=(9, 8), layout="constrained", sharex=True, sharey=True)
for ax, (name, model) in zip(axes.flat, models.items(), strict=True):
    sx.plot.decision_regions(model.fit(X, y), X, y, ax=ax, title=name)
