"""The old name of :mod:`svmcvx.papers`; it goes in the next release."""

import sys
from importlib import import_module

from svmcvx.errors import warn_deprecated

warn_deprecated("svmcvx.experiments.reproduction", "it is called svmcvx.papers")
sys.modules[__name__] = import_module("svmcvx.papers")
