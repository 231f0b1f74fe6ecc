"""Solutions: a model, its certificate, how it was found, and a summary of all that."""

from svmcvx.solution.answer import Attempt, DataFacts, Evidence, OptimalIntercepts, Solution, Status, Timings

__all__ = ["Attempt", "DataFacts", "Evidence", "OptimalIntercepts", "Solution", "Status", "Timings"]
