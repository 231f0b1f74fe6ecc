"""Public names and signatures, as they were written down.

Where a change is meant: ``python -m tests.generated`` writes ``tests/public_names.json`` anew; the
difference shows the change.
"""

import json

import svmcvx as sx
from tests.generated import SNAPSHOT, public_names, snapshot


def test_public_names_and_signatures_are_as_written_down():
    written, found = json.loads(SNAPSHOT.read_text()), public_names()
    assert sorted(set(written) - set(found)) == []
    assert sorted(set(found) - set(written)) == []
    assert {name: value for name, value in found.items() if value != written[name]} == {}
    assert SNAPSHOT.read_text() == snapshot()


def test_the_snapshot_holds_every_public_name():
    found = public_names()
    assert {f"svmcvx.{name}" for name in sx.__all__} <= set(found)
    assert found["svmcvx.fast.path"].startswith("(formulation: 'str', X: 'Any', y: 'Any'")
    assert "kappa" not in found["svmcvx.psvm_dual"]
    assert (
        found["svmcvx.PSVMClassifier"]["fit"]
        == "(self, X: 'Any', y: 'Any', sample_weight: 'Any' = None) -> 'Self'"
    )


def test_dir_shows_public_names_only():
    assert {name for name in dir(sx) if not name.startswith("__")} == set(sx.__all__)
    assert len(sx.__all__) <= 50
