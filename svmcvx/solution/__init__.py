"""Solutions: a model, its certificate, how it was found, and a summary of all that."""

from svmcvx.solution.answer import Attempt, DataFacts, Evidence, Solution, Status, Timings

__all__ = ["Attempt", "DataFacts", "Evidence", "Solution", "Status", "Timings"]
