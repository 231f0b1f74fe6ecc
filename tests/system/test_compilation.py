"""Compiling: once for all processes of a computer, and told to whoever is waiting."""

import ast
import io
import os
import subprocess
import sys

import pytest

from svmcvx.system import compilation

COMPILES = """
import sys
from svmcvx.system.compilation import recorded
import numpy as np
import svmcvx as sx
sys.stdin.readline()
with recorded() as record:
    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [3.0, 2.0]])
    sx.fast.odm(X, [0, 0, 1, 1], method="dcd", max_iter=3)
print([f"{one.module}.{one.name}" for one in record if one.module.startswith("svmcvx")])
"""


@pytest.mark.slow
def test_two_processes_that_need_the_same_function_compile_it_once(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    both = [
        subprocess.Popen([sys.executable, "-W", "ignore", "-c", COMPILES], **pipe) for _ in range(2)
    ]
    for one in both:
        one.stdin.write("go\n")
        one.stdin.flush()
    found = [ast.literal_eval(one.communicate()[0]) for one in both]
    together = found[0] + found[1]
    assert together
    assert len(together) == len(set(together))


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
numba.__version__ = {version!r}
from svmcvx.system.compilation import compiled

@compiled(inner=True)
def twice(x):
    return 2 * x

@compiled()
def call(x):
    return twice(x) + 1

print(call(3), type(call).__module__, hasattr(call, "py_func"), "_compile_for_args" in vars(call))
"""


@pytest.mark.parametrize(("version", "private"), [("0.61.0", True), ("0.99.0rc1", False)])
def test_private_options_are_for_tested_versions_of_numba(tmp_path, version, private):
    # Functions are stored beside their source, which has to be a file.
    path = tmp_path / "program.py"
    path.write_text(UNTESTED.format(version=version))
    found = printed_by(path).split()
    assert found[0] == "7"
    assert found[-1] == str(private)
