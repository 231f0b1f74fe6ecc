"""Specialised solvers for large instances, each returning the same certified Solution as the general route."""

from typing import TYPE_CHECKING, NoReturn

from svmcvx.errors import no_attribute
from svmcvx.fast.conic_loss.conic import conic
from svmcvx.fast.indicator.l0 import l0
from svmcvx.fast.indicator.ramp import ramp
from svmcvx.fast.indicator.zero_one import zero_one
from svmcvx.fast.margin.hard_margin import hard_margin
from svmcvx.fast.margin.psvm import psvm
from svmcvx.fast.margin_distribution.odm import odm
from svmcvx.fast.margin_distribution.odml import odml
from svmcvx.fast.several_classes.classical import multiclass
from svmcvx.fast.several_classes.m3svm import m3svm
from svmcvx.fast.warm_path import path

__all__ = ["conic", "hard_margin", "l0", "m3svm", "multiclass", "odm", "odml", "path", "psvm", "ramp", "zero_one"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise no_attribute(__name__, name, __all__)
