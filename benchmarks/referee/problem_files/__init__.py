"""Problems in files that other programs read."""

from benchmarks.referee.problem_files.write import write_problem

__all__ = ["write_problem"]
