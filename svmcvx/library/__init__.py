"""A library of proved optima: instances known by their content, an index of what is proved of each,
and the second checker as its referee.

>>> from svmcvx import library
>>> instance = library.instances("core")[0]
>>> print(instance)
psvm C=0.001 p=1 intercept=free on breast_cancer/standard
>>> bounds = library.Index()[instance.id]
>>> bounds.status, bounds.tolerance
('proved', '1e-9')
"""

from __future__ import annotations

from svmcvx.library.building import Added, Built, add, build
from svmcvx.library.checking import CheckedInstance, LibraryCheck, check
from svmcvx.library.data_sets import DataSet
from svmcvx.library.index import Bounds, Claim, Index
from svmcvx.library.instances import Instance, Problem
from svmcvx.library.looking_up import find, get, instances, lookup
from svmcvx.library.proving import prove

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
