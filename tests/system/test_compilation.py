"""Compiling: once for all processes of a computer, and told to whoever is waiting."""

import ast
import io
import os
import subprocess
import sys

import pytest

from svmcvx.system import compilation

SHARED = """
from svmcvx.system.compilation import compiled

@compiled()
def total(x):
    found = 0.0
    for i in range(x.size):
        found += x[i]
    return found
"""
COMPILES = """
import sys
import numpy as np
from shared import total
from svmcvx.system.compilation import recorded
print("ready", flush=True)
sys.stdin.readline()
with recorded() as record:
    total(np.ones(3))
print([one.name for one in record])
"""


def test_two_processes_that_need_the_same_function_compile_it_once(tmp_path):
    (tmp_path / "shared.py").write_text(SHARED)
    places = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": places}
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    both = [subprocess.Popen([sys.executable, "-c", COMPILES], **pipe) for _ in range(2)]
    assert [one.stdout.readline() for one in both] == ["ready\n"] * 2
    for one in both:
        one.stdin.write("go\n")
        one.stdin.flush()
    assert sorted(ast.literal_eval(one.communicate()[0]) for one in both) == [[], ["total"]]


@pytest.mark.parametrize(
    ("terminal", "process", "watched"),
    [(True, "MainProcess", True), (True, "LokyProcess-1", False), (False, "MainProcess", False)],
)
def test_compiling_is_announced_once_at_a_terminal(monkeypatch, terminal, process, watched):
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    stream.isatty = lambda: terminal
    monkeypatch.setattr(compilation.multiprocessing.current_process(), "_name", process)
    assert compilation.is_watched() == watched
    compilation.announce.cache_clear()
    for _ in range(2):
        compilation.announce()
    assert stream.getvalue() == f"{compilation.MESSAGE}\n"


OTHERS = """
import numba
from numba.core import caching
save = caching.IndexDataCacheFile.save
from svmcvx.system import clock, compilation
import svmcvx as sx
sx.PSVMClassifier
before = clock.compile_seconds()
mine = numba.njit(lambda x: x + 1)
with compilation.recorded() as record:
    assert mine(1) == 2
assert not record
assert clock.compile_seconds() == before
assert caching.IndexDataCacheFile.save is save
print("untouched")
"""


def printed_by(*program):
    done = subprocess.run([sys.executable, *program], capture_output=True, text=True, check=True)
    return done.stdout


def test_functions_of_others_are_untouched():
    assert printed_by("-c", OTHERS) == "untouched\n"


UNTESTED = """
import numba
numba.__version__ = "0.99.0rc1"
from svmcvx.system.compilation import compiled

@compiled(inner=True)
def twice(x):
    return 2 * x

@compiled()
def call(x):
    return twice(x) + 1

print(call(3), "_compile_for_args" in vars(call))
"""


def test_private_options_are_for_tested_versions_of_numba(tmp_path):
    # Functions are stored beside their source, which has to be a file.
    path = tmp_path / "program.py"
    path.write_text(UNTESTED)
    assert printed_by(path).split() == ["7", "False"]
