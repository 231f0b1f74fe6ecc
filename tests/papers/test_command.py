"""The command of the tables: what it lists, refuses and writes."""

import json

import pytest

from benchmarks.papers.__main__ import main


def test_tables_are_listed(capsys):
    assert main([]) == 0
    assert "psvm-table1: pSVM, Table 1" in capsys.readouterr().out
    assert main(["--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["table"] == "psvm-table1"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["no-table"], "table must be one of"),
        (["odm-table2", "--every", "3", "--set", "nowhere"], "got nowhere"),
        (["psvm-table1", "--json", "no/folder/t.json"], "cannot be written"),
    ],
)
def test_what_cannot_be_computed_is_refused(words, why, capsys):
    assert main(words) == 2
    assert why in capsys.readouterr().err
