"""Conic and mixed-integer solvers behind one call."""

from svmcvx.solve.policy import SolverInfo, available_solvers
from svmcvx.solve.solver import solve

__all__ = ["SolverInfo", "available_solvers", "solve"]
