"""Command line (extra ``cli``), with options made from the signatures of the functions called.

Numerical packages are imported only when a command is run, so that help, completion and error
messages are quick.
"""

from svmcvx.cli import commands as commands
from svmcvx.cli.application import app, run

__all__ = ["app", "run"]
