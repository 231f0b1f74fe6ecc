"""Code as users write it, for ``make lint`` (mypy) and pyright: nothing here may need a cast."""

import numpy as np

import svmcvx as sx

X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0, 0, 1, 1])

solution = sx.solve(sx.psvm_dual(X, y, C=1.0, p=1.5))
weights: int = solution.model.coef.size
lower: float | None = solution.certificate.lower
scores = solution.model.decision_function(X)

machine = sx.PSVMClassifier(C=1.0, p=1.5).fit(X, y)
gap: float = machine.certificate_.gap
certified: bool = sx.certify(machine, X, y, problem="psvm", C=1.0, p=1.5).is_certified(1e-6)
own: sx.Certificate = sx.certify(sx.psvm_dual(X, y, C=1.0, p=1.5))
accuracy: sx.Interval = machine.guarantee(X, y).accuracy(X, y)
fast: sx.Solution = sx.fast.psvm(X, y, kernel=sx.kernels.RBF(gamma=0.5))
status: sx.Status = fast.status
