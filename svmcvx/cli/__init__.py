"""Command line (extra ``cli``): one module a group of commands.

The modules import numerical packages only when a command is run, so that help, completion and error
messages are quick.
"""

from svmcvx.cli import certifying, comparing, data_sets, installation, selecting, studying
from svmcvx.cli.application import app, run

# The modules add their commands to the application when they are imported.
__all__ = [
    "app",
    "certifying",
    "comparing",
    "data_sets",
    "installation",
    "run",
    "selecting",
    "studying",
]

# As they are listed in the help.
ORDER = ("compare", "select", "certify", "study", "verify", "compile", "doctor", "datasets")
app.registered_commands.sort(
    key=lambda command: ORDER.index(command.name or getattr(command.callback, "__name__", ""))
)
