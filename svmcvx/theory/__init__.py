"""What the papers prove about their machines, as numbers for a model and its data.

Every bound comes term by term. Where a printed formula does not hold, the module says so, ``total``
is a corrected one, and the printed number is a separate field.
"""

from typing import TYPE_CHECKING, NoReturn

from svmcvx.errors import no_attribute
from svmcvx.theory.complexity import (
    RademacherBound,
    RademacherEstimate,
    rademacher_bound,
    rademacher_estimate,
    radius,
)
from svmcvx.theory.distribution import MarginDistribution, margin_distribution, margins
from svmcvx.theory.generalisation import GeneralisationBound, generalisation_bound, margin_loss
from svmcvx.theory.loo import (
    LeaveOneOut,
    LeaveOneOutBound,
    ODMLeaveOneOutBound,
    ODMLLeaveOneOutBound,
    leave_one_out,
    leave_one_out_bound,
)
from svmcvx.theory.pairs import GuaranteedRisk, guaranteed_risk, pairwise_margins

__all__ = [
    "GeneralisationBound",
    "GuaranteedRisk",
    "LeaveOneOut",
    "LeaveOneOutBound",
    "MarginDistribution",
    "ODMLLeaveOneOutBound",
    "ODMLeaveOneOutBound",
    "RademacherBound",
    "RademacherEstimate",
    "generalisation_bound",
    "guaranteed_risk",
    "leave_one_out",
    "leave_one_out_bound",
    "margin_distribution",
    "margin_loss",
    "margins",
    "pairwise_margins",
    "rademacher_bound",
    "rademacher_estimate",
    "radius",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise no_attribute(__name__, name, __all__)
