"""The format of proofs: the page against the tables and the program, and files that break its rules."""

import hashlib
import json
import re
import struct
import tracemalloc
import zipfile
from copy import deepcopy
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.proofs import Proof, ProofFile, Statement, fingerprint, read_proof, verify, write_proof
from svmcvx.proofs.tables import FORMULATIONS, KERNELS
from tests.proofs import reference_verifier

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


def npy(values, *, dtype="<f8", order="False", shape=None, version=b"\x01\x00"):
    """The bytes of an array, its header written by hand."""
    array = np.asarray(values, dtype=dtype)
    text = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape or array.shape}, }}"
    text += " " * (117 - len(text)) + "\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text.encode() + array.tobytes()


def written(path, header, arrays, *, digest=None, compression=zipfile.ZIP_DEFLATED, more=()):
    """A file with any header, as text or as values, any members, and the digest that belongs to them."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    members = {f"{name}.npy": values if isinstance(values, bytes) else npy(values) for name, values in arrays.items()}
    content = b"".join([text, *(members[name] for name in sorted(members))])
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("header.json", text)
        for name, values in members.items():
            archive.writestr(name, values)
        archive.writestr("digest.txt", hashlib.sha256(content).hexdigest() if digest is None else digest)
        for name, values in more:
            archive.writestr(name, values)
    return path


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


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_of_the_page_are_proofs(number, tmp_path):
    (header, table), (data, labels) = EXAMPLES[number], DATA[number]
    arrays = arrays_of(table)
    digest = re.search(r"\| digest \| ([0-9a-f]{64})", table)[1]
    path = written(tmp_path / "example.npz", header, arrays, digest=digest)
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
    arrays = {name: [Fraction(x) for x in np.ravel(values).tolist()] for name, values in arrays.items()}
    w, (b,), s = arrays["model.coef"], arrays["model.intercept"], arrays["statement.weight"]
    y, half = (-1, 1, 1), Fraction(1, 2)
    u = [sign * (sum(a * x for a, x in zip(w, row, strict=True)) + b) for sign, row in zip(y, rows, strict=True)]
    v = [sign * a for sign, a in zip(y, arrays["dual.alpha" if number == 0 else "dual.theta"], strict=True)]
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
        "lower end": [*v, *of_dual, sum(v), dual, sum(theta), band, price, sum(theta) - band - price - dual],
    }


def test_the_example_of_scores_is_a_proof(tmp_path):
    header, table = SCORES.split("```json\n")[1].split("\n```")
    arrays = arrays_of(table)
    members = arrays | {"scores.label": npy(arrays["scores.label"], dtype="|u1")}
    digest = re.search(r"\| digest \| ([0-9a-f]{64})", table)[1]
    path = written(tmp_path / "example.npz", header, members, digest=digest)
    found = verify(path, X, Y, test=TEST)
    assert found.holds
    assert found.scores.labels.tolist() == ["spam", "ham", None]
    write_proof(tmp_path / "again.npz", read_proof(path))
    with zipfile.ZipFile(tmp_path / "again.npz") as archive:
        assert json.loads(archive.read("header.json")) == json.loads(header)
    np.savez(tmp_path / "data.npz", X=X, y=Y, T=TEST)
    assert reference_verifier.verify(path, tmp_path / "data.npz")[2] == ""
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
    ends = [(w * Fraction(t) + half, w * Fraction(t) - half) for t, half in zip(TEST[:, 0], brackets, strict=True)]
    assert [x for pair in ends for x in pair] == [Fraction(x) for x in numbers(row_of(table, "scores"))]
    for (low, high), a, b in zip(ends, arrays["scores.lower"], arrays["scores.upper"], strict=True):
        assert a <= low < high <= b
    schema = pytest.importorskip("jsonschema").Draft202012Validator(json.loads(SCHEMA))
    schema.validate(json.loads(header))
    for test in ({"rows": 0, "digest": "0" * 64}, {"rows": 3, "digest": "A" * 64}, {"rows": 3}, None):
        assert not schema.is_valid(json.loads(header) | {"test": test})


def test_the_tables_of_the_page_are_those_of_the_program():
    section = PAGE.split("## Formulations")[1].split("## Arrays")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")]
    formulations = {name: row for row in rows if len(row) == 4 for name in re.findall(r"`([a-z0-9_ ]+)`", row[0])}
    assert formulations.keys() == FORMULATIONS.keys()
    for name, (_, intercepts, hyperparameters, dual) in formulations.items():
        known = FORMULATIONS[name]
        assert tuple(intercepts.split(", ")) == known.intercepts
        assert set(re.findall(r"`([A-Za-z0-9]+)`", hyperparameters)) == {
            key for form in known.forms for key in form.hyperparameters
        }
        entries = set(re.findall(r"`([a-z]+)`", dual)) - {"kappa", "k"}
        assert entries == {key for form in known.forms for key in (*form.dual, *form.optional)}
        assert set(re.findall(r"`([a-z]+)`\?", dual)) == {key for form in known.forms for key in form.optional}
    kernels = {row[0].strip("`"): set(re.findall(r"`([a-z0-9]+)`", row[1])) for row in rows if len(row) == 3}
    assert kernels == {name: set(rules) for name, rules in KERNELS.items()}


HEADER = json.loads(EXAMPLES[0][0])
ARRAYS = arrays_of(EXAMPLES[0][1])


def at(header, path, value):
    """A header with another value at a path; None in place of a name deletes."""
    changed = deepcopy(header)
    *inner, last = path
    place = changed
    for name in inner:
        place = place[name]
    if value is DELETED:
        del place[last]
    else:
        place[last] = value
    return changed


DELETED = object()
H, K, C = ("statement", "hyperparameters"), ("statement", "kernel"), ("claim",)
NESTED = "[" * 100_000 + "]" * 100_000
BROKEN = {
    "no statement": (("statement",), DELETED, "must have the entries"),
    "one field more": (("statement", "weights"), "1", "and no others"),
    "one claim more": ((*C, "gap"), 0.0, "and no others"),
    "one key more": (("comment",), "honest", "and no others"),
    "format": (("format",), "other", "its header does not say so"),
    "version 3": (("version",), 3, "another proof format than 2"),
    "version true": (("version",), True, "another proof format than 2"),
    "formulation": (("statement", "formulation"), "guess", "no check for the formulation 'guess'"),
    "formulation a list": (("statement", "formulation"), [], "no check for the formulation"),
    "intercept": (("statement", "intercept"), "penalised", "the intercept of psvm of a proof must be one of free"),
    "intercept a list": (("statement", "intercept"), [], "must be one of free"),
    "no hyper-parameters": (H, None, "must be values by their names"),
    "hyper-parameters a list": (H, [], "must be values by their names"),
    "unknown hyper-parameter": ((*H, "lam"), 1.3, "the hyper-parameters of psvm are C, p; the proof has C, lam, p"),
    "lacking hyper-parameter": ((*H, "p"), DELETED, "the hyper-parameters of psvm are C, p; the proof has C"),
    "C of 400 digits": ((*H, "C"), 10**400, "an integer of 1329 bits"),
    "C not exact": ((*H, "C"), 2**53 + 1, "C of psvm of a proof must be a finite number above 0"),
    "C infinite": ((*H, "C"), "inf", "must be a finite number above 0, got inf"),
    "C zero": ((*H, "C"), 0.0, "above 0"),
    "C true": ((*H, "C"), True, "must be a finite number"),
    "C text": ((*H, "C"), "0.5", "must be a finite number"),
    "p below 1": ((*H, "p"), 0.99, "at least 1"),
    "kernel text": (K, "rbf", "the kernel of a proof must be values"),
    "kernel unknown": (K, {"name": "mystery"}, "the kernel 'mystery'"),
    "kernel a list": (K, {"name": []}, r"the kernel \[\]"),
    "kernel linear": (K, {"name": "linear"}, "null for the linear machine"),
    "gamma negative": (
        K,
        {"name": "rbf", "gamma": -0.01},
        "gamma of the kernel rbf of a proof must be a finite number above",
    ),
    "gamma missing": (K, {"name": "laplacian"}, "the parameters of the kernel laplacian are gamma; the proof has none"),
    "gamma and more": (K, {"name": "rbf", "gamma": 1.0, "coef0": 1.0}, "the proof has coef0, gamma"),
    "degree no integer": (
        K,
        {"name": "polynomial", "degree": 2.0, "gamma": 1.0, "coef0": 1.0},
        "an integer at least 1",
    ),
    "degree zero": (K, {"name": "polynomial", "degree": 0, "gamma": 1.0, "coef0": 1.0}, "an integer at least 1"),
    "degree large": (K, {"name": "polynomial", "degree": 1001, "gamma": 1.0, "coef0": 1.0}, "at most 1000"),
    "not square": (K, {"name": "precomputed"}, "a precomputed kernel is a square matrix"),
    "model of a kernel": (K, {"name": "rbf", "gamma": 1.0}, "the model of a proof of psvm has the arrays"),
    "rows zero": (("statement", "rows"), 0, "the number of rows"),
    "rows other": (("statement", "rows"), 4, r"statement.weight of the proof has the shape \(3,\) where \(4\)"),
    "rows no integer": (("statement", "rows"), 3.0, "the number of rows"),
    "columns other": (
        ("statement", "columns"),
        2,
        r"model.coef of the proof has the shape \(1,\) where \(2\) is needed",
    ),
    "classes text": (("statement", "classes"), "ab", "must be a list of labels"),
    "classes of two kinds": (("statement", "classes"), ["a", 1], "all strings, all booleans or all numbers"),
    "classes nested": (("statement", "classes"), [["a"], ["b"]], "all strings, all booleans or all numbers"),
    "classes not sorted": (("statement", "classes"), ["spam", "ham"], "in increasing order"),
    "classes equal": (("statement", "classes"), [1, 1.0], "in increasing order"),
    "one class": (("statement", "classes"), ["spam"], "has two classes, the proof 1"),
    "three classes": (("statement", "classes"), [1, 2, 3], "has two classes, the proof 3"),
    "class of 65 bits": (("statement", "classes"), [0, 2**64], "no integer of 64 bits"),
    "fingerprint": (("statement", "fingerprint"), "FE204F0C-c1035b2f", "two times eight hexadecimal digits"),
    "fingerprint a number": (("statement", "fingerprint"), 7, "two times eight hexadecimal digits"),
    "claims nothing": (C, {"lower": None, "upper": None, "kind": "convex", "stated": None}, "claims neither"),
    "lower text": ((*C, "lower"), "x", "the lower end of a proof must be a finite number, got 'x'"),
    "lower large": ((*C, "lower"), 10**400, "an integer of 1329 bits"),
    "lower above upper": ((*C, "lower"), 0.34, "is above its upper end"),
    "kind": ((*C, "kind"), "enumeration", "the kind of psvm of a proof must be one of convex"),
    "kind a list": ((*C, "kind"), [], "must be one of convex"),
    "stated": ((*C, "stated"), 0.3, "a lower end is stated by searches only"),
    "claim a list": (C, [], "must have the entries"),
    "arrays a list": (("arrays",), [], "must be given by their names"),
    "unknown array": (("arrays", "extra.junk"), {"dtype": "<f8", "shape": [3]}, "has no array 'extra.junk'"),
    "array of the header": (
        ("arrays", "hyperparameters.C"),
        {"dtype": "<f8", "shape": []},
        "has no array 'hyperparameters.C'",
    ),
    "another's array": (
        ("arrays", "dual.theta"),
        {"dtype": "<f8", "shape": [3]},
        "the dual of a proof of psvm has the arrays",
    ),
    "gamma of another": (
        ("arrays", "statement.gamma"),
        {"dtype": "<f8", "shape": [3]},
        "the statement of a proof of psvm",
    ),
    "a tree": (("arrays", "tree.rows"), {"dtype": "<f8", "shape": [3]}, "tree"),
    "dtype": (("arrays", "dual.alpha", "dtype"), "<f4", "the dtype of the array 'dual.alpha' of a proof must be <f8"),
    "complex": (("arrays", "statement.weight", "dtype"), "<c16", "must be <f8"),
    "dtype a list": (("arrays", "dual.alpha", "dtype"), ["<f8"], "must be <f8"),
    "shape 10^13": (("arrays", "dual.alpha", "shape"), [10**13], r"has the shape \(10000000000000,\) where \(3\)"),
    "shape 10^400": (("arrays", "dual.alpha", "shape"), [10**400], "must be sizes"),
    "shape negative": (("arrays", "dual.alpha", "shape"), [-3], "must be sizes"),
    "shape true": (("arrays", "dual.alpha", "shape"), [True], "must be sizes"),
    "shape of two": (("arrays", "dual.alpha", "shape"), [3, 1], r"\(3, 1\) where \(3\)"),
    "array missing": (("arrays", "dual.alpha"), DELETED, "do not belong together"),
    "model missing": (
        ("arrays", "model.coef"),
        DELETED,
        "the model of a proof of psvm has the arrays coef, intercept or",
    ),
}


def test_the_schema_takes_what_the_reader_takes():
    schema = pytest.importorskip("jsonschema").Draft202012Validator(json.loads(SCHEMA))
    for header, _ in EXAMPLES:
        schema.validate(json.loads(header))
    # Sizes, the order of classes and ends, and what doubles hold are not for a schema.
    others = {
        *("C not exact", "not square", "lower above upper", "classes not sorted", "class of 65 bits", "claims nothing"),
        *("C of 400 digits", "lower large", "rows no integer", "degree no integer"),
    }
    for name, (path, value, _) in BROKEN.items():
        sizes = path[0] == "arrays" or path[-1] in ("rows", "columns") or name == "model of a kernel"
        if name not in others and not sizes:
            assert not schema.is_valid(at(HEADER, path, value)), name


@pytest.mark.parametrize("name", BROKEN)
def test_a_header_that_breaks_a_rule_is_refused(name, tmp_path):
    path, value, why = BROKEN[name]
    file = written(tmp_path / "proof.npz", at(HEADER, path, value), ARRAYS)
    with pytest.raises(sx.DataError, match=why):
        verify(file, X, Y)


TEXTS = {
    "a name twice": (lambda text: text.replace('"C": 0.5', '"C": 7.5, "C": 0.5'), "says the same name twice"),
    "a name twice outside": (lambda text: text.replace('"version": 2', '"version": 2, "version": 2'), "twice"),
    "NaN": (lambda text: text.replace("0.33203125", "NaN"), "not a number of JSON"),
    "infinity": (lambda text: text.replace("0.33203125", "-Infinity"), "not a number of JSON"),
    "1e400": (lambda text: text.replace('"C": 0.5', '"C": 1e400'), "got inf"),
    "5000 digits": (lambda text: text.replace('"C": 0.5', f'"C": {"9" * 5000}'), "or is corrupted"),
    "nested": (lambda text: text.replace('"C": 0.5', f'"C": {NESTED}'), "or is corrupted"),
    "a list": (lambda text: f"[{text}]", "its header does not say so"),
    "no text": (lambda text: "", "or is corrupted"),
    "more than a megabyte": (lambda text: text + " " * 2**20, "more than 1048576 bytes"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_is_no_header_is_refused(name, tmp_path):
    change, why = TEXTS[name]
    file = written(tmp_path / "proof.npz", change(EXAMPLES[0][0]), ARRAYS)
    with pytest.raises(sx.DataError, match=why):
        verify(file, X, Y)


ALPHA = ARRAYS["dual.alpha"]
MEMBERS = {
    "order": (npy(ALPHA, order="True"), "not an array of dtype <f8"),
    "dtype": (npy(ALPHA, dtype=">f8"), "not an array of dtype <f8"),
    "shape": (npy(ALPHA, shape="(3, 1)"), "not an array of dtype <f8"),
    "shape of 10^13": (npy(ALPHA, shape="(10000000000000,)"), "not an array of dtype <f8"),
    "version of the array": (npy(ALPHA, version=b"\x02\x00"), "not an array of dtype <f8"),
    "too short": (npy(ALPHA)[:-1], "not an array of dtype <f8"),
    "too long": (npy(ALPHA) + b"\x00", "not an array of dtype <f8"),
    "far too long": (npy(ALPHA) + b"\x00" * 2**21, "the size of dual.alpha is not that of its shape"),
    "no array": (b"alpha" * 20, "not an array of dtype <f8"),
    "empty": (b"", "the size of dual.alpha is not that of its shape"),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_an_array_that_is_not_what_the_header_says_is_refused(name, tmp_path):
    content, why = MEMBERS[name]
    file = written(tmp_path / "proof.npz", HEADER, {**ARRAYS, "dual.alpha": content})
    with pytest.raises(sx.DataError, match=why):
        verify(file, X, Y)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_that_breaks_a_rule_is_refused(tmp_path):
    path, other = tmp_path / "proof.npz", npy([0.0, 0.0, 0.0])
    for arguments, why in (
        ({"more": [("dual.alpha.npy", other)]}, "two members of one name"),
        ({"more": [("header.json", "{}")]}, "two members of one name"),
        ({"more": [("junk.npy", other)]}, "'junk.npy' do not belong together"),
        ({"more": [(f"{i}.npy", b"") for i in range(80)]}, "more than 64 members"),
        ({"compression": zipfile.ZIP_BZIP2}, "neither stored nor deflated"),
        ({"compression": zipfile.ZIP_LZMA}, "neither stored nor deflated"),
        ({"digest": "0" * 64}, "do not match their digest"),
        ({"digest": "0" * 63}, "not one of 64 digits"),
        ({"digest": "é" * 32}, "do not match their digest"),
    ):
        with pytest.raises(sx.DataError, match=why):
            verify(written(path, HEADER, ARRAYS, **arguments), X, Y)
    assert verify(written(path, HEADER, ARRAYS), X, Y)
    content = path.read_bytes()
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"a note"
    with pytest.raises(sx.DataError, match="or is corrupted"):
        verify(path, X, Y)
    # A bit that says that a member is encrypted.
    for place in [match.start() for match in re.finditer(b"PK\x01\x02", content)][:1]:
        path.write_bytes(content[: place + 8] + b"\x01" + content[place + 9 :])
        with pytest.raises(sx.DataError, match="neither stored nor deflated"):
            verify(path, X, Y)
    # Before the end, the mark of an archive of more than four gigabytes.
    path.write_bytes(content[:-22] + b"PK\x06\x07" + b"\x00" * 16 + content[-22:])
    with pytest.raises(sx.DataError, match="or is corrupted"):
        verify(path, X, Y)
    for size in (0, 10, 21, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(sx.DataError, match="or is corrupted"):
            verify(path, X, Y)


def test_a_file_of_version_1_is_refused_in_a_sentence(tmp_path):
    np.savez(tmp_path / "old.npz", header=np.array("{}"), weight=np.ones(3))
    with pytest.raises(sx.DataError, match=r"proof format 1, which is not read any more.*save a new proof"):
        verify(tmp_path / "old.npz", X, Y)


def test_a_file_that_grows_when_it_is_read_takes_no_memory(tmp_path):
    rows, zeros = 10**6, b"\x00" * 8 * 10**6
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows},), }}".ljust(117).encode() + b"\n"
    large = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + text + zeros
    header = at(HEADER, ("arrays", "dual.alpha", "shape"), [rows])
    bombs = {
        "unknown member": (HEADER, ARRAYS, [("junk.npy", zeros)]),
        "one row more": (header, {**ARRAYS, "dual.alpha": large}, []),
        "rows of another": (
            at(at(header, ("statement", "rows"), rows), ("arrays", "statement.weight"), DELETED),
            {name: large if name == "dual.alpha" else v for name, v in ARRAYS.items() if name != "statement.weight"},
            [],
        ),
    }
    for name, (about, arrays, more) in bombs.items():
        path = written(tmp_path / f"{name}.npz", about, arrays, more=more)
        tracemalloc.start()
        with pytest.raises(sx.DataError):
            verify(path, X, Y)
        assert tracemalloc.get_traced_memory()[1] < 10**6, name
        tracemalloc.stop()
    # What is stored is told from the header: nothing is read of data of another size.
    path = written(tmp_path / "stored.npz", *bombs["rows of another"][:2], compression=zipfile.ZIP_STORED)
    tracemalloc.start()
    found = verify(path, X, Y)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
    assert not found.holds
    assert "they have 3 rows, the proof is about 1000000" in found.why
    assert found.statement is None
    with ProofFile(path) as file:
        assert file.header.statement["rows"] == rows


def test_a_proof_made_by_hand_keeps_the_rules_of_a_file():
    statement = Statement("psvm", {"C": 0.5, "p": 2}, None, "free", 3, 1, ("ham", "spam"), fingerprint(X, Y))
    model, dual = {"coef": [0.625], "intercept": 0}, {"alpha": [0.3125, 0.3125, 0.0]}
    assert verify(Proof(statement, model, dual, 0.3, 0.4), X, Y)
    for wrong, why in (
        ({"dual": {"alpha": [1 + 5j, 0, 0]}}, "dual.alpha of a proof is not numeric"),
        ({"dual": {"alpha": ["1", "0", "0"]}}, "dual.alpha of a proof is not numeric"),
        ({"dual": {"alpha": [[1.0], [0.0, 0.0]]}}, "dual.alpha of a proof is not numeric"),
        ({"dual": {"alpha": np.array([2**53 + 1, 0, 0])}}, "not of the dtype <f8"),
        ({"dual": {"alpha": np.array([0, 0, 0.0]) + np.longdouble(2) ** -60 + 1}}, "not of the dtype <f8"),
        ({"dual": {"alpha": [0.0, 0.0, np.inf]}}, "dual.alpha of a proof is not finite: see its entry 2"),
        ({"model": {"support": [np.inf], "dual_coef": [1.0], "intercept": 0}}, "not of the dtype <i8"),
        ({"dual": {"alpha": [0.0, 0.0]}}, r"has the shape \(2,\) where \(3\) is needed"),
        ({"dual": {"theta": [0.0, 0.0, 0.0]}}, "the dual of a proof of psvm has the arrays"),
        ({"model": {"support": [0.5], "dual_coef": [1.0], "intercept": 0}}, "not of the dtype <i8"),
        ({"model": {"support": [0, 1], "dual_coef": [1.0], "intercept": 0}}, "has the shape"),
        ({"model": {"support": [0] * 4, "dual_coef": [1.0] * 4, "intercept": 0}}, "names 4 rows, the data have 3"),
        ({"model": {**model, "V": [[1.0]]}}, "the model of a proof of psvm has the arrays"),
        ({"tree": {"rows": [0, 1, 2]}}, "the tree of a proof of psvm has the arrays none"),
        ({"lower": np.nan}, "the lower end of a proof must be a finite number"),
        ({"upper": np.inf}, "the upper end of a proof must be a finite number"),
        ({"statement": None}, "must be a Statement"),
    ):
        arguments = {"statement": statement, "model": model, "dual": dual, "lower": 0.3, "upper": 0.4} | wrong
        with pytest.raises(sx.DataError, match=why):
            Proof(**arguments)
    for wrong, why in (
        ({"weight": [1.0, -1.0, 1.0]}, "statement.weight of a proof must not be negative"),
        ({"weight": [1.0, np.nan, 1.0]}, "statement.weight of a proof is not finite: see its entry 1"),
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
        ({"V": np.zeros((1, 1)), "V_coef": np.zeros((2, 1)), "ridge": 0.0}, "the model of a proof of conic"),
    ):
        with pytest.raises(sx.DataError, match=why):
            Proof(conic, model | spread, {}, None, 2.0)
    labels = np.arange(3)
    topk = {"lam": 1.0, "k": 4}
    with pytest.raises(sx.DataError, match="k of topk_svm is at most the number of classes, 3, got 4"):
        Statement("topk_svm", topk, None, "free", 3, 1, (0, 1, 2), fingerprint(np.zeros((3, 1)), labels))
    with pytest.raises(sx.DataError, match="a proof of msvm has no kernel"):
        Statement("msvm", {"lam": 1.0}, {"name": "rbf", "gamma": 1.0}, "free", 3, 1, (0, 1, 2), "0" * 8 + "-" + "0" * 8)
