"""The format of proofs: the page against the tables and the program, and files that break its
rules.
"""

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.proofs import Proof, Statement, fingerprint, read_proof, verify, write_proof
from svmcvx.proofs.statement import FORMULATIONS, KERNELS, dtype_of
from tests.proofs.forgeries import headers
from tests.proofs.forgeries.archive import npy, packed
from tests.proofs.forgeries.honest import honest

SCHEMA = (Path(__file__).parents[2] / "docs" / "proof_header.schema.json").read_text()
PAGE = (Path(__file__).parents[2] / "docs" / "proof_format.md").read_text()
X, Y = np.array([[-1.0], [1.0], [2.0]]), np.array(["ham", "spam", "spam"])
TEST = np.array([[3.0], [-0.5], [0.0]])


def example(after, before):
    """The header of an example of the page, and the table that goes with it."""
    return tuple(PAGE.split(after)[1].split(before)[0].split("```json\n")[1].split("\n```"))


# Header, table, and the data.
EXAMPLES = {
    "psvm": (*example("A p-SVM, with", "## Trees"), X, Y, None),
    "tree": (*example("## Trees", "## Scores"), np.array([[1.0], [2.0], [1.0]]), [1, 1, 0], None),
    "scores": (*example("## Scores", "These c and η confirm"), X, Y, TEST),
}


def arrays_of(table):
    """The arrays that a table lists, with the dtypes of the format."""
    found, row = {}, table.split("| arrays |")[1].split("\n")[0].replace("−", "-")
    for name, values in re.findall(r"`([a-z]+\.[a-z_]+)` = (\[[^]]*\]|[-\d.]+)", row):
        numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", values)]
        found[name] = np.array(numbers if "[" in values else numbers[0], dtype=dtype_of(name))
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_page_are_proofs(name, tmp_path):
    header, table, data, labels, test = EXAMPLES[name]
    arrays, path = arrays_of(table), tmp_path / "example.npz"
    digest = re.search(r"\| digest \| ([0-9a-f]{64})", table)[1].encode()
    members = [(f"{name}.npy", npy(values)) for name, values in sorted(arrays.items())]
    path.write_bytes(packed([("header.json", header.encode()), *members, ("digest.txt", digest)]))
    proof, found = read_proof(path), verify(path, data, labels, test=test)
    assert found.holds, found.why
    assert proof.statement.fingerprint == fingerprint(data, labels)
    if name == "psvm":
        # The numbers of the page are exact, and so is what is proved.
        assert found.lower == pytest.approx(proof.lower, rel=1e-15)
        assert found.upper == pytest.approx(proof.upper, rel=1e-15)
    if name == "scores":
        assert found.scores.labels.tolist() == ["spam", "ham", None]
    write_proof(tmp_path / "again.npz", proof)
    with zipfile.ZipFile(tmp_path / "again.npz") as archive:
        assert json.loads(archive.read("header.json")) == json.loads(header)
        for entry, values in arrays.items():
            assert archive.read(f"{entry}.npy").endswith(values.tobytes())
    schema = pytest.importorskip("jsonschema").Draft202012Validator(json.loads(SCHEMA))
    schema.validate(json.loads(header))
    for wrong in ({"rows": 0, "digest": "0" * 64}, {"rows": 3, "digest": "A" * 64}, None):
        assert not schema.is_valid(json.loads(header) | {"test": wrong})


def test_the_tables_of_the_page_are_those_of_the_program():
    section = PAGE.split("## Formulations")[1].split("## Arrays")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    formulations = {
        name: row
        for row in rows
        if len(row) == 4
        for name in re.findall(r"`([a-z0-9_ ]+)`", row[0])
    }
    assert formulations.keys() == FORMULATIONS.keys()
    for name, (_, intercepts, hyperparameters, dual) in formulations.items():
        known = FORMULATIONS[name]
        assert tuple(intercepts.split(", ")) == known.intercepts
        assert set(re.findall(r"`([A-Za-z0-9]+)`", hyperparameters)) == {
            key for form in known.forms for key in form.hyperparameters
        }
        entries = set(re.findall(r"`([a-z]+`\??)", dual)) - {"kappa`", "k`"}
        assert {entry.replace("`", "") for entry in entries} == {
            key for form in known.forms for key in form.dual
        }
    kernels = {
        row[0].strip("`"): set(re.findall(r"`([a-z0-9]+)`", row[1]))
        for row in rows
        if len(row) == 3
    }
    assert kernels == {name: set(rules) for name, rules in KERNELS.items()}


# Headers that only a reader refuses: sizes, the order of classes and ends, and what doubles hold
# are not for a schema.
NOT_OF_THE_SCHEMA = {
    *("version 2.0", "a row more", "a column more", "a kernel over coefficients"),
    *("the fingerprint of other data", "classes in the wrong order", "no end claimed"),
    *("classes that the data have not", "crossed ends"),
    *("a lower end of four hundred digits", "an upper end of four hundred digits"),
}


def test_the_schema_takes_what_the_reader_takes():
    schema = pytest.importorskip("jsonschema").Draft202012Validator(json.loads(SCHEMA))
    for name in ("zero_one k", "l0", "cells", "cells k", "blocks", "sets", "coded", "scores"):
        schema.validate(json.loads(honest(name).text()))
    taken = set()
    for what, change, _ in headers.CHANGES:
        file = honest("psvm")
        schema.validate(json.loads(file.text()))
        change(file)
        taken |= {what} if schema.is_valid(json.loads(file.text())) else set()
    assert taken == NOT_OF_THE_SCHEMA


def test_a_proof_made_by_hand_keeps_the_rules_of_a_file():
    statement = Statement(
        "psvm", {"C": 0.5, "p": 2}, None, "free", 3, 1, ("ham", "spam"), fingerprint(X, Y)
    )
    model, dual = {"coef": [0.625], "intercept": 0}, {"alpha": [0.3125, 0.3125, 0.0]}
    sparse = {"support": [0], "dual_coef": [1.0], "intercept": 0}
    assert verify(Proof(statement, model, dual, 0.3, 0.4), X, Y)
    for wrong, why in (
        ({"dual": {"alpha": [1 + 5j, 0, 0]}}, "dual.alpha of a proof is not numeric"),
        ({"dual": {"alpha": np.zeros(3) + np.longdouble(2) ** -60 + 1}}, "not of the dtype <f8"),
        ({"dual": {"alpha": [0.0, 0.0, np.inf]}}, "is not finite: see its entry 2"),
        ({"model": sparse | {"support": [np.inf]}}, "not of the dtype <i8"),
        ({"model": sparse | {"support": [0.5]}}, "not of the dtype <i8"),
        ({"tree": {"rows": [0, 1, 2]}}, "the tree of a proof of psvm has the arrays none"),
        ({"lower": np.nan}, "the lower end of a proof must be a finite number"),
        ({"upper": np.inf}, "the upper end of a proof must be a finite number"),
    ):
        honest_fields = {"statement": statement, "model": model, "dual": dual, "lower": 0.3}
        with pytest.raises(sx.DataError, match=why):
            Proof(**{**honest_fields, "upper": 0.4, **wrong})
    with pytest.raises(sx.DataError, match="weight of a proof is not finite: see its entry 1"):
        Statement(**statement.plain | {"weight": [1.0, np.nan, 1.0]})
    # Dictionaries that are changed after the proof was made are looked at again.
    proof = Proof(statement, model, dual, 0.3, 0.4)
    proof.dual["alpha"] = np.array([1.0, 2.0])
    with pytest.raises(sx.DataError, match="has the shape"):
        verify(proof, X, Y)
