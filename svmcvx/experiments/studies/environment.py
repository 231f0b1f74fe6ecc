"""The computer and the versions of packages with which a study was computed."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

import svmcvx

__all__ = ["commit", "computer", "versions"]

PACKAGES = (
    "cvxpy",
    "clarabel",
    "scs",
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "joblib",
    "pandas",
)


def versions() -> dict[str, str]:
    """Return the versions of this package, of Python, and of the numerical packages."""
    found = {"svmcvx": svmcvx.__version__, "Python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """Return the commit of the sources, with "+" if they were changed since; None if they are not
    in a repository, or git is not there.
    """
    folder = Path(svmcvx.__file__).parents[1]
    git = shutil.which("git")
    if git is None or not (folder / ".git").exists():
        return None
    try:
        head, changed = (
            subprocess.run(  # noqa: S603 - no shell, and words of our own
                [git, "-C", str(folder), *words], capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "svmcvx"])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def computer() -> dict[str, str]:
    """Describe this computer, without its name."""
    memory = psutil.virtual_memory().total / 2**30
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": f"{psutil.cpu_count(logical=False) or '?'} ({os.cpu_count()} logical)",
        "memory": f"{memory:.0f} GiB",
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
