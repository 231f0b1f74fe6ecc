"""The command line as a call: its exit code, and what it prints."""

import sys

import pytest
from rich.console import Console

from svmcvx import cli
from svmcvx.cli import screen


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SVMCVX_DATA", raising=False)

    # The screen were made when the module was imported, for other streams.
    def call(*arguments, width=120):
        monkeypatch.setattr(screen, "output", Console(file=sys.stdout, width=width))
        monkeypatch.setattr(screen, "errors", Console(file=sys.stderr, width=200))
        # The first of the arguments may be several words.
        code = cli.run((*arguments[0].split(), *arguments[1:]))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
