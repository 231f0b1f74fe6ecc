"""Conic and mixed-integer solvers behind one call."""

from svmcvx.solve.chain import solve
from svmcvx.solve.policy import SolverInfo, available_solvers

__all__ = ["SolverInfo", "available_solvers", "solve"]
