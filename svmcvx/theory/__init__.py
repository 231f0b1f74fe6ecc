"""Margins of models, and the bounds of the papers."""

from svmcvx.theory.bounds import (
    GeneralisationBound,
    LeaveOneOutBound,
    generalisation_bound,
    leave_one_out_bound,
    margin_loss,
)
from svmcvx.theory.margins import MarginDistribution, margin_distribution, margins, pairwise_margins

__all__ = [
    "GeneralisationBound",
    "LeaveOneOutBound",
    "MarginDistribution",
    "generalisation_bound",
    "leave_one_out_bound",
    "margin_distribution",
    "margin_loss",
    "margins",
    "pairwise_margins",
]
