"""scikit-learn estimators of the formulations, and certificates of models from scikit-learn."""

from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.estimators.certification import certify
from svmcvx.estimators.conic_loss import ConicSVMClassifier
from svmcvx.estimators.indicator import L0SVMClassifier, RampSVMClassifier, ZeroOneSVMClassifier
from svmcvx.estimators.margin import PSVMClassifier
from svmcvx.estimators.margin_distribution import ODMClassifier, ODMLClassifier
from svmcvx.estimators.multiclass import M3SVMClassifier, MulticlassSVMClassifier

__all__ = ["BinaryClassifier", "ConicSVMClassifier", "L0SVMClassifier", "M3SVMClassifier"]
__all__ += ["MulticlassSVMClassifier", "ODMClassifier", "ODMLClassifier", "PSVMClassifier"]
__all__ += ["RampSVMClassifier", "ZeroOneSVMClassifier", "certify"]
