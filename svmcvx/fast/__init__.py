"""First-order solvers for large instances, each returning the same certified Solution as the conic route."""

from svmcvx.fast.hard_margin import hard_margin
from svmcvx.fast.odm import odm
from svmcvx.fast.odml import odml
from svmcvx.fast.path import path
from svmcvx.fast.psvm import psvm

__all__ = ["hard_margin", "odm", "odml", "path", "psvm"]
