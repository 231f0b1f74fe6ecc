"""The format of proofs: the page against the tables and the program, and files that break its
rules.
"""

import json
import re
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.proofs import Proof, ProofFile, Statement, fingerprint, read_proof, verify, write_proof
from svmcvx.proofs.statement import FORMULATIONS, KERNELS
from tests.proofs.forgeries import headers
from tests.proofs.forgeries.archive import npy, packed
from tests.proofs.forgeries.honest import honest

SCHEMA = (Path(__file__).parents[2] / "docs" / "proof_header.schema.json").read_text()
PAGE = (Path(__file__).parents[2] / "docs" / "proof_format.md").read_text()
EXAMPLES = [
    (part.split("```json\n")[1].split("\n```")[0], part.split("```json\n")[1].split("\n```")[1])
    for part in PAGE.split("## Three examples")[1].split("## Trees")[0].split("\nA")[1:]
]
DATA = [
    ([[-1.0], [1.0], [2.0]], ["ham", "spam", "spam"]),
    ([[-1.0, 0.0], [1.0, 1.0], [2.0, 0.0]], [0, 1, 1]),
]
X, Y = (np.array(part) for part in DATA[0])
SCORES = PAGE.split("## Scores")[1]
TEST = np.array([[3.0], [-0.5], [0.0]])


def numbers(text):
    """The numbers of a text, the page's minus as that of Python."""
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text.replace("−", "-"))]


def arrays_of(table):
    found = {}
    for name, values in re.findall(
        r"`([a-z]+\.[a-z_]+)` = (\[[^]]*\]|[-−\d.]+)", table.split("| arrays |")[1].split("\n")[0]
    ):
        found[name] = np.array(numbers(values)) if "[" in values else np.array(numbers(values)[0])
    return found


def row_of(table, name):
    return table.split(f"| {name} |")[1].split("|\n")[0]


def written(path, header, table, arrays):
    """The file of an example, with the digest that the page has."""
    digest = re.search(r"\| digest \| ([0-9a-f]{64})", table)[1].encode()
    members = [(f"{name}.npy", npy(values)) for name, values in arrays.items()]
    path.write_bytes(packed([("header.json", header.encode()), *members, ("digest.txt", digest)]))
    return path


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_of_the_page_are_proofs(number, tmp_path):
    (header, table), (data, labels) = EXAMPLES[number], DATA[number]
    arrays = arrays_of(table)
    path = written(tmp_path / "example.npz", header, table, arrays)
    with ProofFile(path) as file:
        assert file.header.statement["rows"] == 3
    proof = read_proof(path)
    assert verify(path, np.array(data), labels, method="balls").holds
    assert proof.statement.fingerprint == fingerprint(np.array(data), labels)
    write_proof(tmp_path / "again.npz", proof)
    with zipfile.ZipFile(tmp_path / "again.npz") as archive:
        assert json.loads(archive.read("header.json")) == json.loads(header)
        for name, values in arrays.items():
            assert archive.read(f"{name}.npy")[-8 * values.size :] == values.tobytes()
    # Every number of the page is that of the fractions.
    told = steps(number, [[Fraction(x) for x in row] for row in data], arrays)
    for name, values in told.items():
        shown = [Fraction(x) for x in numbers(row_of(table, name).split("fe204f0c")[0])]
        assert [x for x in values if x not in shown] == [], name
    assert (proof.lower, proof.upper) == (told["lower end"][-1], told["upper end"][-1])


def steps(number, rows, arrays):
    """The intermediate numbers of an example."""
    arrays = {
        name: [Fraction(x) for x in np.ravel(values).tolist()] for name, values in arrays.items()
    }
    w, (b,), s = arrays["model.coef"], arrays["model.intercept"], arrays["statement.weight"]
    y, half = (-1, 1, 1), Fraction(1, 2)
    u = [
        sign * (sum(a * x for a, x in zip(w, row, strict=True)) + b)
        for sign, row in zip(y, rows, strict=True)
    ]
    v = [
        sign * a
        for sign, a in zip(y, arrays["dual.alpha" if number == 0 else "dual.theta"], strict=True)
    ]
    of_dual = [sum(a * row[j] for a, row in zip(v, rows, strict=True)) for j in range(len(w))]
    if number == 0:
        short = [max(1 - t, 0) for t in u]
        norm, loss = half * w[0] ** 2, half * sum(c * t**2 for c, t in zip(s, short, strict=True))
        alpha = arrays["dual.alpha"]
        price = sum(half * c * (a / (2 * half * c)) ** 2 for a, c in zip(alpha, s, strict=True))
        dual = half * of_dual[0] ** 2
        return {
            "margins": [*u, *short],
            "upper end": [norm, loss, norm + loss],
            "lower end": [sum(v), sum(alpha), price, *of_dual, dual, sum(alpha) - price - dual],
        }
    C1, C2, D = Fraction(2), Fraction(1), Fraction(1, 4)
    c = [one / sum(s) for one in s]
    short, beyond = [max(1 - D - t, 0) for t in u], [max(t - 1 - D, 0) for t in u]
    norm = half * (sum(x * x for x in w) + b * b)
    loss = sum(one * (C1 * p**2 + C2 * q**2) for one, p, q in zip(c, short, beyond, strict=True))
    theta = arrays["dual.theta"]
    price = sum(t * t / (4 * (C1 if t > 0 else C2) * one) for t, one in zip(theta, c, strict=True))
    dual = half * (sum(x * x for x in of_dual) + sum(v) ** 2)
    band = D * sum(map(abs, theta))
    return {
        "shares and margins": [*c, *u, *short, *beyond],
        "upper end": [norm, loss, norm + loss],
        "lower end": [
            *v,
            *of_dual,
            sum(v),
            dual,
            sum(theta),
            band,
            price,
            sum(theta) - band - price - dual,
        ],
    }


def test_the_example_of_scores_is_a_proof(tmp_path):
    header, table = SCORES.split("```json\n")[1].split("\n```")
    arrays = arrays_of(table)
    members = arrays | {"scores.label": arrays["scores.label"].astype(np.uint8)}
    path = written(tmp_path / "example.npz", header, table, members)
    found = verify(path, X, Y, test=TEST)
    assert found.holds
    assert found.scores.labels.tolist() == ["spam", "ham", None]
    write_proof(tmp_path / "again.npz", read_proof(path))
    with zipfile.ZipFile(tmp_path / "again.npz") as archive:
        assert json.loads(archive.read("header.json")) == json.loads(header)
    # Every number of the page is that of the fractions.
    a, w, eta, base = Fraction(5, 16), Fraction(5, 8), Fraction(1, 16), Fraction(-1, 256)
    near, far = a - eta / 2, a + eta / 2
    gained = near + far - (near**2 + far**2) / 2 - 2 * a + a**2
    brackets = [(base + gained) / eta - eta * Fraction(t) ** 2 / 4 for t in TEST[:, 0]]
    told = {
        "base": [w, base],
        "coefficients": [Fraction(1, 2), eta, near, far, gained],
        "bracket": brackets,
        "centre": [w * Fraction(t) for t in TEST[:, 0]],
    }
    for name, values in told.items():
        shown = [Fraction(x) for x in numbers(row_of(table, name))]
        assert [x for x in values if x not in shown] == [], name
    ends = [
        (w * Fraction(t) + half, w * Fraction(t) - half)
        for t, half in zip(TEST[:, 0], brackets, strict=True)
    ]
    assert [x for pair in ends for x in pair] == [
        Fraction(x) for x in numbers(row_of(table, "scores"))
    ]
    for (low, high), a, b in zip(ends, arrays["scores.lower"], arrays["scores.upper"], strict=True):
        assert a <= low < high <= b
    schema = pytest.importorskip("jsonschema").Draft202012Validator(json.loads(SCHEMA))
    schema.validate(json.loads(header))
    for test in (
        {"rows": 0, "digest": "0" * 64},
        {"rows": 3, "digest": "A" * 64},
        {"rows": 3},
        None,
    ):
        assert not schema.is_valid(json.loads(header) | {"test": test})


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
    *(
        "version 2.0",
        "a row more",
        "a column more",
        "a kernel over coefficients",
        "the fingerprint of other data",
    ),
    *(
        "classes in the wrong order",
        "classes that the data have not",
        "crossed ends",
        "no end claimed",
    ),
    *("a lower end of four hundred digits", "an upper end of four hundred digits"),
}


def test_the_schema_takes_what_the_reader_takes():
    schema = pytest.importorskip("jsonschema").Draft202012Validator(json.loads(SCHEMA))
    for header, _ in EXAMPLES:
        schema.validate(json.loads(header))
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
    assert verify(Proof(statement, model, dual, 0.3, 0.4), X, Y)
    for wrong, why in (
        ({"dual": {"alpha": [1 + 5j, 0, 0]}}, "dual.alpha of a proof is not numeric"),
        ({"dual": {"alpha": ["1", "0", "0"]}}, "dual.alpha of a proof is not numeric"),
        ({"dual": {"alpha": [[1.0], [0.0, 0.0]]}}, "dual.alpha of a proof is not numeric"),
        ({"dual": {"alpha": np.array([2**53 + 1, 0, 0])}}, "not of the dtype <f8"),
        (
            {"dual": {"alpha": np.array([0, 0, 0.0]) + np.longdouble(2) ** -60 + 1}},
            "not of the dtype <f8",
        ),
        (
            {"dual": {"alpha": [0.0, 0.0, np.inf]}},
            "dual.alpha of a proof is not finite: see its entry 2",
        ),
        (
            {"model": {"support": [np.inf], "dual_coef": [1.0], "intercept": 0}},
            "not of the dtype <i8",
        ),
        ({"dual": {"alpha": [0.0, 0.0]}}, r"has the shape \(2,\) where \(3\) is needed"),
        ({"dual": {"theta": [0.0, 0.0, 0.0]}}, "the dual of a proof of psvm has the arrays"),
        ({"model": {"support": [0.5], "dual_coef": [1.0], "intercept": 0}}, "not of the dtype <i8"),
        ({"model": {"support": [0, 1], "dual_coef": [1.0], "intercept": 0}}, "has the shape"),
        (
            {"model": {"support": [0] * 4, "dual_coef": [1.0] * 4, "intercept": 0}},
            "names 4 rows, the data have 3",
        ),
        ({"model": {**model, "V": [[1.0]]}}, "the model of a proof of psvm has the arrays"),
        ({"tree": {"rows": [0, 1, 2]}}, "the tree of a proof of psvm has the arrays none"),
        ({"lower": np.nan}, "the lower end of a proof must be a finite number"),
        ({"upper": np.inf}, "the upper end of a proof must be a finite number"),
        ({"statement": None}, "must be a Statement"),
    ):
        arguments = {
            "statement": statement,
            "model": model,
            "dual": dual,
            "lower": 0.3,
            "upper": 0.4,
        } | wrong
        with pytest.raises(sx.DataError, match=why):
            Proof(**arguments)
    for wrong, why in (
        ({"weight": [1.0, -1.0, 1.0]}, "statement.weight of a proof must not be negative"),
        (
            {"weight": [1.0, np.nan, 1.0]},
            "statement.weight of a proof is not finite: see its entry 1",
        ),
        ({"weight": [0.0, 0.0, 0.0]}, "some weight of a proof must be positive"),
        ({"weight": [1.0, 1.0]}, r"has the shape \(2,\) where \(3\) is needed"),
        ({"gamma": [1.0, 1.0, 1.0]}, "the statement of a proof of psvm has the arrays"),
        ({"M": [1.0, 1.0, 1.0]}, "the statement of a proof of psvm has the arrays"),
        ({"hyperparameters": {"C": 0.5, "p": 2, "kernel": "none"}}, "the proof has C, kernel, p"),
    ):
        plain = {**statement.plain, **wrong}
        with pytest.raises(sx.DataError, match=why):
            Statement(**plain)
    # Dictionaries that are changed after the proof was made are looked at again.
    proof = Proof(statement, model, dual, 0.3, 0.4)
    proof.dual["alpha"] = np.array([1.0, 2.0])
    with pytest.raises(sx.DataError, match="has the shape"):
        verify(proof, X, Y)


def test_the_size_of_what_is_free_has_limits():
    rows = np.zeros((2, 1))
    conic = Statement("conic", {"lam": 1.0}, None, "none", 2, 1, (0, 1), fingerprint(rows, [0, 1]))
    model = {"coef": [0.0], "intercept": 0.0}
    for spread, why in (
        ({"V": np.zeros((1, 3))}, "too many columns: 3"),
        ({"V_coef": np.zeros((2, 3)), "ridge": 0.0}, "too many columns: 3"),
        ({"V_coef": np.zeros((2, 1))}, "the model of a proof of conic has the arrays"),
        (
            {"V": np.zeros((1, 1)), "V_coef": np.zeros((2, 1)), "ridge": 0.0},
            "the model of a proof of conic",
        ),
    ):
        with pytest.raises(sx.DataError, match=why):
            Proof(conic, model | spread, {}, None, 2.0)
    labels = np.arange(3)
    topk = {"lam": 1.0, "k": 4}
    with pytest.raises(
        sx.DataError, match="k of topk_svm is at most the number of classes, 3, got 4"
    ):
        Statement(
            "topk_svm", topk, None, "free", 3, 1, (0, 1, 2), fingerprint(np.zeros((3, 1)), labels)
        )
    with pytest.raises(sx.DataError, match="a proof of msvm has no kernel"):
        Statement(
            "msvm",
            {"lam": 1.0},
            {"name": "rbf", "gamma": 1.0},
            "free",
            3,
            1,
            (0, 1, 2),
            "0" * 8 + "-" + "0" * 8,
        )
