"""Solutions: a model, its certificate, how it was found, and a summary of all that."""

from svmcvx.solution.answer import Solution
from svmcvx.solution.record import (
    Attempt,
    DataFacts,
    Evidence,
    OptimalIntercepts,
    Status,
    Timings,
    Undecided,
)

__all__ = [
    "Attempt",
    "DataFacts",
    "Evidence",
    "OptimalIntercepts",
    "Solution",
    "Status",
    "Timings",
    "Undecided",
]
