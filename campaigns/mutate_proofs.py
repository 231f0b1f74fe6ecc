"""Honest proofs of every formulation, mutated at random and by plan: no interval that is returned
may exclude the optimum.

``python -m campaigns.mutate_proofs --count 1000 --first 0`` changes arrays, claims, headers and
bytes of honest files at random; ``--planned`` takes what a forger would try first: parts of other
honest files, other signs, members and keys twice, files cut short. The optimum of each problem is
known from an honest proof. An interval is judged whether or not the claim holds, and an error that
is no ``SvmcvxError`` is one too many.
"""

import argparse
import collections
import json
import resource
import sys
import tempfile
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import svmcvx as sx
from campaigns import common, predictions
from tests.proofs.forgeries.archive import HEADER, File, npy, packed, unpacked
from tests.proofs.forgeries.honest import TEST
from tests.proofs.test_proofs import CASES, case

METHODS = ("auto", "balls", "a-priori")
NUMBERS = (
    *(0.0, -0.0, -1.0, 1.0, 1e308, -1e308, 1e-320, 5e-324, 1e-170, 1e17, 2.0**-40, 2.0**53),
    *(np.nan, np.inf),
)
CHANGES, SHARES = ("array", "claim", "shape", "header", "bytes"), (0.78, 0.1, 0.04, 0.04, 0.04)
INTEGERS = (0, -1, 1, 2**31 - 1, -(2**31), 2**62, 7)
X, Y = sx.synthetic.outlier_data(24, 2, sigma=0.5, outliers="spread", seed=0)
WEIGHT = np.linspace(0.0, 2.0, Y.size)
RBF, SQUARE = sx.RBF(0.5), sx.Polynomial(2, 0.5, 1.0)
# Searches: the solver, and its arguments.
SEARCHES = {
    f"{solver} {arguments}": (solver, arguments)
    for solver, arguments in (
        # Blocks come before the searches below that end with the optima of the same problems.
        *(
            (solver, arguments | {"method": "partition", "max_iter": 2})
            for solver, arguments in (
                *(("l0", {"C": 2.0}), ("zero_one", {"lam": 1.0})),
                ("l0", {"C": 5.0, "sample_weight": WEIGHT}),
            )
        ),
        *(
            ("zero_one", arguments)
            for arguments in (
                *({"lam": 1.0}, {"lam": 0.3}, {"lam": 0.3, "intercept": False}, {"k": 4.0}),
                {"lam": 1.0, "sample_weight": WEIGHT},
                {"k": 3.5, "sample_weight": WEIGHT},
            )
        ),
        *(
            (solver, arguments | {"kernel": kernel})
            for solver, arguments in (
                ("zero_one", {"lam": 0.5}),
                ("ramp", {"C": 1.0, "sample_weight": WEIGHT}),
                ("l0", {"C": 2.0, "method": "search"}),
            )
            for kernel in (None, RBF, SQUARE)
        ),
        # Cells of directions.
        *(
            (solver, arguments | {"method": "directions"})
            for solver, arguments in (
                *(("l0", {"C": 2.0}), ("l0", {"C": 5.0, "sample_weight": WEIGHT})),
                *(("zero_one", {"lam": 2.0}), ("zero_one", {"lam": 5.0, "intercept": False})),
                ("zero_one", {"k": 3.6, "sample_weight": WEIGHT}),
            )
        ),
    )
}
# Machines whose proofs claim the scores of test rows, some solved so loosely that their intervals
# leave labels open.
BAND = {"C1": 2.0, "C2": 0.5, "D": 0.1}
SCORED = {
    f"scores {solver} {arguments}": (solver, arguments)
    for solver, arguments in (
        ("psvm", {"C": 1.3, "p": 1.0, "kernel": None, "tol": 1e-2}),
        ("psvm", {"C": 1.3, "p": 1.0, "kernel": None, "tol": 1e-6, "sample_weight": WEIGHT}),
        ("psvm", {"C": 1.3, "p": 2.0, "kernel": RBF, "tol": 1e-3}),
        ("psvm", {"C": 0.4, "p": 1.5, "kernel": None, "intercept": "none", "tol": 1e-4}),
        ("odm", {**BAND, "kernel": None, "intercept": False, "tol": 1e-1}),
        ("odm", {**BAND, "kernel": RBF, "intercept": True, "tol": 1e-8}),
    )
}
NAMES = [*CASES, *SEARCHES, *SCORED]


class Honest(NamedTuple):
    """The file of an honest proof, the interval that it proves, and both ends of the optimal scores
    of its test rows, if it has some.
    """

    file: File
    lower: float
    upper: float
    scores: list | None


class Outcome(NamedTuple):
    """How the check of a mutated file ended."""

    number: int
    what: str
    ended: str
    detail: str


@cache
def honest(name):
    X_, y, T, scores = X, Y, None, None
    if name in CASES:
        proof, X_, y = case(name)
    elif name in SEARCHES:
        solver, arguments = SEARCHES[name]
        proof = getattr(sx.fast, solver)(X, Y, **arguments).proof()
    else:
        T, (solver, arguments) = TEST, SCORED[name]
        proof = sx.guarantee(getattr(sx.fast, solver)(X, Y, **arguments), X, Y).proof(T)
        fine = getattr(sx.fast, solver)(X, Y, **arguments | {"tol": common.FINE})
        scores = predictions.exact_scores(X, (Y > 0).astype(int), T, solver, arguments, fine)
    verified = sx.verify(proof, X_, y, test=T)
    assert verified.holds, (name, verified.why)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.npz"
        sx.proofs.write_proof(path, proof)
        header, arrays = unpacked(path)
    return Honest(File(header, arrays, X_, y, T=T), verified.lower, verified.upper, scores)


def problem_of(file):
    """What the optimum of a file's problem depends on."""
    arrays = {
        name: values.tolist()
        for name, values in file.arrays.items()
        if name.startswith("statement.")
    }
    return json.dumps([file.statement, arrays], sort_keys=True)


@cache
def known():
    """What is known of the optimum by the problems of the honest files; a file with test rows comes
    after one of its problem without.
    """
    return {problem_of(honest(name).file): honest(name)[1:] for name in NAMES}


# Random mutations.

ENTRIES, OF_DOUBLES = ("number", "copy", "swap", "zero"), ("factor", "sign", "step", "all", "noise")


def change_entry(values, rng):
    """Change entries of an array in place, and tell how."""
    if not values.size:
        return "nothing"
    flat, place = values.reshape(-1), int(rng.integers(values.size))
    other, some = int(rng.integers(values.size)), rng.uniform(size=values.size) < rng.uniform()
    doubles = values.dtype.kind == "f"
    how = str(rng.choice([*ENTRIES, *(OF_DOUBLES if doubles else ["step"])]))
    with np.errstate(all="ignore"):
        if how == "number":
            flat[place] = np.asarray(rng.choice(NUMBERS if doubles else INTEGERS)).astype(
                flat.dtype
            )
        elif how == "copy":
            flat[place] = flat[other]
        elif how == "swap":
            flat[[place, other]] = flat[[other, place]]
        elif how == "zero":
            flat[some] = 0
        elif not doubles:
            flat[place] += rng.integers(-3, 4).astype(values.dtype)
        elif how == "factor":
            flat[place] *= 10.0 ** rng.uniform(-3, 3)
        elif how == "sign":
            flat[some] *= -1.0
        elif how == "step":
            flat[place] = np.nextafter(flat[place], rng.choice([-np.inf, np.inf]))
        elif how == "all":
            flat *= rng.choice([0.5, 0.99, 1.0 + 2.0**-45, 1.01, 2.0, -1.0, 1e3])
        else:
            flat += rng.normal(size=values.size) * 10.0 ** rng.uniform(-14, 1)
    return how


def mutated(number):
    """A file and its contents after one to three random changes, and what was done."""
    rng = np.random.default_rng([1, number])
    name = str(rng.choice(NAMES))
    file, told = deepcopy(honest(name).file), [name]
    for _ in range(int(rng.integers(1, 4))):
        points = [key for key in file.arrays if not key.startswith("statement.")]
        what = str(rng.choice(CHANGES, p=SHARES))
        if what == "array":
            key = str(rng.choice(points))
            told.append(f"{key}: {change_entry(file.arrays[key], rng)}")
        elif what == "claim":
            end = str(rng.choice(["lower", "upper", "stated", "kind"]))
            kinds = ("convex", "local", "enumeration", "mixed-integer")
            ends = (None, 0.0, -1e300, 1e300, file.claim["lower"], file.claim["upper"])
            file.claim[end] = (
                str(rng.choice(kinds)) if end == "kind" else ends[int(rng.integers(len(ends)))]
            )
            told.append(f"claim of {end}")
        elif what == "shape":
            key = str(rng.choice(points))
            values = file.arrays[key]
            if values.ndim:
                cut = int(rng.integers(0, len(values) + 1))
                file.arrays[key] = (
                    values[:cut] if rng.uniform() < 0.5 else np.concatenate([values, values[:cut]])
                )
            told.append(f"{key}: shape")
        elif what == "header":
            text = bytearray(file.text().encode())
            text[int(rng.integers(len(text)))] = int(rng.integers(32, 127))
            told.append("a letter of the header")
            return file, file.content(text.decode(errors="replace")), told
        else:
            content = bytearray(file.content())
            for _ in range(int(rng.integers(1, 5))):
                content[int(rng.integers(len(content)))] = int(rng.integers(256))
            told.append("bytes")
            return file, bytes(content), told
    return file, file.content(), told


# Mutations by plan.


def of_families(arrays, families):
    return {key: values for key, values in arrays.items() if key.partition(".")[0] in families}


def planned(number):
    """A file and its contents after a change that a forger would try, and what was done."""
    rng, how = np.random.default_rng([2, number]), number % 10
    first, second = (str(name) for name in rng.choice(NAMES, 2))
    file, other, told = deepcopy(honest(first).file), deepcopy(honest(second).file), [first]
    key = str(rng.choice([key for key in file.arrays if not key.startswith("statement.")]))
    values = file.arrays[key]
    if how == 0:
        families = {str(family) for family in rng.choice(["model", "dual", "tree", "scores"], 2)}
        kept = {k: v for k, v in file.arrays.items() if k.partition(".")[0] not in families}
        file.arrays = kept | of_families(other.arrays, families)
        told += [f"from {second}:", *families]
    elif how == 1:
        key = str(rng.choice(list(other.arrays)))
        file.arrays[key] = other.arrays[key]
        told.append(f"{key} from {second}")
    elif how == 2:
        key = str(rng.choice(list(file.statement)))
        file.statement[key] = other.statement[key]
        told.append(f"{key} of {second}")
    elif how == 3:
        file.header["claim"] = other.claim
        told.append(f"the claim of {second}")
    elif how == 4:
        own = {"fingerprint": file.statement["fingerprint"]}
        file.header["statement"] = other.statement | own
        file.arrays = file.arrays | of_families(other.arrays, {"tree"})
        told.append(f"statement and tree of {second}")
    elif how < 7 and values.size:
        place = ... if how == 5 else int(rng.integers(values.size))
        values.reshape(-1)[place] *= np.asarray(-1).astype(values.dtype)
        told.append(f"{key}: {'all signs' if how == 5 else 'a sign'}")
    elif how == 7:
        members = file.members()
        name = members[int(rng.integers(len(members)))][0]
        twin = (name, npy(np.zeros(3)) if name != HEADER else b"{}")
        both = [*members, twin] if rng.uniform() < 0.5 else [twin, *members]
        return file, packed(both), [first, "a member twice"]
    elif how == 8:
        key = str(rng.choice(["statement", "claim", *file.claim, *file.statement]))
        text = file.text().replace(f'"{key}"', f'"{key}": null, "{key}"', 1)
        return file, file.content(text), [first, f"{key} twice"]
    elif how == 9:
        content = file.content()
        return file, content[: int(rng.integers(len(content)))], [first, "cut short"]
    return file, file.content(), told


# The judge.


def judged(number, make, path):
    """Check a mutated file and judge what comes of it."""
    file, content, told = make(number)
    path.write_bytes(content)
    method, what = METHODS[number % len(METHODS)], ", ".join(told)
    try:
        found = sx.verify(path, file.X, file.y, method=method, test=file.T)
    except sx.SvmcvxError:
        # There is no check of every formulation in doubles.
        return Outcome(number, what, "no proof", "")
    except Exception as error:
        return Outcome(number, what, "RAW ERROR", f"{method}: {type(error).__name__}: {error}")
    ended = "holds" if found.holds else "refused"
    if found.statement is None:
        return Outcome(number, what, ended, "")
    # The interval is that of the data, whatever fingerprint the file has.
    about = found.statement
    plain = about.plain | {"fingerprint": sx.proofs.fingerprint(file.X, file.y)}
    numbers = {k: "inf" if v == np.inf else v for k, v in about.hyperparameters.items()}
    plain |= {"hyperparameters": numbers, "classes": list(about.classes)}
    arrays = {f"statement.{key}": values.tolist() for key, values in about.arrays.items()}
    truth = known().get(json.dumps([plain, arrays], sort_keys=True))
    if truth is None:
        return Outcome(number, what, f"{ended}, another problem", "")
    lower, upper, scores = truth
    detail = f"{method}: {found}, the optimum is between {lower} and {upper}, scores {scores}"
    if (found.lower is not None and found.lower > upper) or found.upper < lower:
        return Outcome(number, what, "WRONG", detail)
    if found.scores is None:
        return Outcome(number, what, ended, "")
    claims = [found.scores._asdict()] + [sx.proofs.read_proof(path).scores] * found.holds
    if scores is None or any(false_rows(claim, scores) for claim in claims):
        return Outcome(number, what, "WRONG", detail)
    return Outcome(number, what, f"{ended} with scores", "")


def false_rows(claim, scores):
    """The test rows of which an interval does not contain every optimal score."""
    ends = zip(claim["lower"], claim["upper"], scores, strict=True)
    return [t for t, (a, b, (low, high)) in enumerate(ends) if not (a <= low and high <= b)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument(
        "--planned", action="store_true", help="changes by plan in place of random ones"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="proofs whose names have this text: directions"
    )
    options = parser.parse_args()
    NAMES[:] = [name for name in NAMES if options.only in name]
    known()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counts, bad = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.npz"
        for number in range(options.first, options.first + options.count):
            make = planned if options.planned else mutated
            outcome = judged(number, make, path)
            counts[outcome.ended] += 1
            if outcome.ended.isupper():
                bad.append(outcome)
                print(
                    f"{outcome.number:7d} {outcome.ended}: {outcome.what}\n       "
                    f" {outcome.detail}",
                    flush=True,
                )
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(", ".join(f"{ended}: {count}" for ended, count in counts.most_common()))
    print(
        f"{len(NAMES)} honest proofs; {len(bad)} bad; peak of memory {after / 1024:.0f} MB, of this"
        f" {(after - before) / 1024:.0f} MB for {options.count} files"
    )
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
