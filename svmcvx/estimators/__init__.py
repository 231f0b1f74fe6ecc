"""scikit-learn faces of the formulations."""

from svmcvx.estimators.binary import PSVMClassifier

__all__ = ["PSVMClassifier"]
