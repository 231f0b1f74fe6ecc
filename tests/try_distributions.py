"""Install a wheel and an sdist, each in an empty environment of its own, and use them: ``python
tests/try_distributions.py dist``.

Called by ``make dist``. The wheel is installed without extras, and must import, solve and certify;
then with the extra that the command needs, and must answer on the command line. The sdist must
build to a wheel with the same content.
"""

import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

PROGRAM = """
import numpy as np
import svmcvx as sx
X = np.array([[0.0, 0.0], [1.0, 0.2], [3.0, 0.1], [4.0, 0.0]])
y = ["a", "a", "b", "b"]
solved = sx.solve(sx.psvm_dual(X, y, C=1.0, p=1.5))
fitted = sx.PSVMClassifier(C=1.0, p=1.5).fit(X, y)
assert solved.certificate.is_certified(1e-6) and fitted.certificate_.is_certified(1e-6)
assert abs(solved.certificate.upper - fitted.certificate_.upper) < 1e-5
print("svmcvx", sx.__version__, "solves and certifies, from", sx.__file__)
"""


def run(*command, cwd):
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, cwd=cwd)


def one(folder, pattern):
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"{folder} should hold one {pattern}, it holds {len(found)}")
    return found[0]


def content(wheel):
    """Names and bytes of a wheel's files, but for its record of itself."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")
        }


def main(folder):
    wheel, sdist = one(folder, "*.whl"), one(folder, "*.tar.gz")
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        venv.create(place / "empty", with_pip=True)
        python = place / "empty" / "bin" / "python"
        pip = (python, "-m", "pip", "--disable-pip-version-check")
        run(*pip, "install", "--quiet", wheel, cwd=place)
        run(python, "-c", PROGRAM, cwd=place)
        run(*pip, "install", "--quiet", f"{wheel}[cli]", cwd=place)
        run(python.with_name("svmcvx"), "doctor", cwd=place)
        run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", place / "again", sdist, cwd=place)
        first, second = content(wheel), content(one(place / "again", "*.whl"))
        if first != second:
            different = sorted(
                name for name in {*first, *second} if first.get(name) != second.get(name)
            )
            raise SystemExit(f"wheel and sdist differ in {', '.join(different)}")
        metadata = next(text for name, text in first.items() if name.endswith("/METADATA")).decode()
        if os.environ.get("SVMCVX_REPOSITORY") and re.search(r"\]\((?![a-z]+:|#)", metadata):
            raise SystemExit("the description has relative links, which a package index breaks")
    print("wheel and sdist are whole")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
