"""What every optimal machine predicts: intervals of scores, labels and accuracies that follow from
a certificate.
"""

from svmcvx.guarantees.answers import CertifiedScores, Guarantee, Interval
from svmcvx.guarantees.dispatch import guarantee

__all__ = ["CertifiedScores", "Guarantee", "Interval", "guarantee"]
