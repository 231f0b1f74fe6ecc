"""Command line (extra ``cli``): one module a group of commands."""

from svmcvx.cli import comparing, data_sets, machine, reproducing, studying, verifying
from svmcvx.cli.application import app, run

# The modules add their commands to the application when they are imported.
__all__ = ["app", "comparing", "data_sets", "machine", "reproducing", "run", "studying", "verifying"]
