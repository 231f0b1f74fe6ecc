"""Pictures of models (extra ``plot``); each function takes and returns a matplotlib ``Axes``."""

from typing import TYPE_CHECKING, NoReturn

from svmcvx.errors import no_attribute
from svmcvx.plot.curves import (
    against_exponent,
    certified_path,
    certified_selection,
    gap_trace,
    losses,
)
from svmcvx.plot.models import decision_regions, margin_distribution, pairwise_margins

__all__ = [
    "against_exponent",
    "certified_path",
    "certified_selection",
    "decision_regions",
    "gap_trace",
    "losses",
    "margin_distribution",
    "pairwise_margins",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise no_attribute(__name__, name, __all__)
