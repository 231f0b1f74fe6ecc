"""Problems in files that other programs read."""

from svmcvx.solve.problem_files.write import write_problem

__all__ = ["write_problem"]
