"""Files that a forger might pass for proofs: the checker refuses each, with its reason, in little
memory.
"""

import json
import re
import tracemalloc

import pytest

import svmcvx as sx
from tests.proofs.forgeries.__main__ import write
from tests.proofs.forgeries.archive import unpacked
from tests.proofs.forgeries.corpus import forgeries

pytest.importorskip("flint")

FORGERIES = list(forgeries())
# Bytes for reading a file and checking a handful of rows, and copies of the data, at most.
BYTES, TIMES = 6_000_000, 4


def refusal(path, X, y, method="auto", test=None):
    """The reason for which a file is refused, whatever way it is told."""
    try:
        verified = sx.verify(path, X, y, test=test, method=method)
    except sx.DataError as error:
        return str(error)
    assert not verified
    assert not verified.holds
    return verified.why


@pytest.mark.parametrize("forgery", FORGERIES, ids=[forgery.name for forgery in FORGERIES])
def test_a_forgery_is_refused_with_its_reason(forgery, tmp_path):
    content, X, y, optimum, T = forgery.make()
    path = tmp_path / "proof.npz"
    path.write_bytes(content)
    if optimum is not None:
        claim = unpacked(path)[0]["claim"]
        lower, upper = (claim[end] for end in ("lower", "upper"))
        assert (lower is not None and lower > optimum) or (upper is not None and upper < optimum)
    tracemalloc.start()
    try:
        why = refusal(path, X, y, test=T)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert re.search(forgery.reason, why), why
    assert why.isprintable()
    assert peak <= BYTES + TIMES * 8 * X.shape[0] * X.shape[1]
    why = refusal(path, X, y, "a-priori", T)
    assert re.search(f"{forgery.reason}|no check of .* in doubles|doubles do not tell", why), why


def test_names_tell_forgeries_apart():
    assert len({forgery.name for forgery in FORGERIES}) == len(FORGERIES)


def test_one_command_writes_them_all(tmp_path):
    assert write(tmp_path) == len(FORGERIES)
    index = json.loads((tmp_path / "index.json").read_text())
    assert [entry["what"] for entry in index] == [forgery.name for forgery in FORGERIES]
    for entry in index:
        assert (tmp_path / f"{entry['file']}.proof.npz").exists()
        assert (tmp_path / f"{entry['file']}.data.npz").exists()
