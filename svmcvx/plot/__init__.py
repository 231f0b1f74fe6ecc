"""Pictures of models (extra ``plot``); each function takes and returns a matplotlib ``Axes``."""

from svmcvx.plot.curves import certified_path, certified_selection, gap_trace
from svmcvx.plot.models import decision_regions, margin_distribution

__all__ = [
    "certified_path",
    "certified_selection",
    "decision_regions",
    "gap_trace",
    "margin_distribution",
]
