"""Commands that referee solvers: the library of proved optima, and the race."""

from svmcvx.cli.referee import library, racing

__all__ = ["library", "racing"]
