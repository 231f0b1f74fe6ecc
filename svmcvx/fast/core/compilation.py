"""Compilation of passes, defined in :mod:`svmcvx.system.compilation`: kernel rows are computed by compiled passes too."""

from svmcvx.system.compilation import Compiled, compiled, recorded

__all__ = ["Compiled", "compiled", "recorded"]
