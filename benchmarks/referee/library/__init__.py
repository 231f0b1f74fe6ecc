"""A library of proved optima: instances known by their content, an index of what is proved of each,
and the second checker as its referee.

>>> from benchmarks.referee import library
>>> instance = library.instances("core")[0]
>>> print(instance)
psvm C=0.001 p=1 intercept=free on breast_cancer/standard
>>> bounds = library.Index()[instance.id]
>>> bounds.status, bounds.tolerance
('proved', '1e-9')
"""

from __future__ import annotations

from benchmarks.referee.library.building import Added, Built, add, build
from benchmarks.referee.library.checking import CheckedInstance, LibraryCheck, check
from benchmarks.referee.library.data_sets import DataSet
from benchmarks.referee.library.index import Bounds, Claim, Index
from benchmarks.referee.library.instances import Instance, Problem
from benchmarks.referee.library.looking_up import find, get, instances, lookup
from benchmarks.referee.library.proving import prove

__all__ = [
    "Added",
    "Bounds",
    "Built",
    "CheckedInstance",
    "Claim",
    "DataSet",
    "Index",
    "Instance",
    "LibraryCheck",
    "Problem",
    "add",
    "build",
    "check",
    "find",
    "get",
    "instances",
    "lookup",
    "prove",
]
