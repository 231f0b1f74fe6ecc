"""Proved optima: instances, what is known of them, and the proofs, which the second checker reads.

    python -m benchmarks.referee list psvm p=1 iris
    python -m benchmarks.referee get 3f2a --out folder
    python -m benchmarks.referee write 3f2a problem.mps
    python -m benchmarks.referee check --sample 50
    python -m benchmarks.referee add proof.npz --who NAME
    python -m benchmarks.referee build zero_one --proofs folder

Exit codes: 0 all was done; 1 something failed or does not hold; 2 arguments or data cannot be used;
130 Ctrl-C ended it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.referee import library
from benchmarks.referee.library import Index, Instance, fetch, find
from benchmarks.referee.problem_files import write_problem
from svmcvx import DataError, NotCertified, SvmcvxError

DONE, FAILED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130


def parser() -> argparse.ArgumentParser:
    """Return the parser of the commands."""
    parse = argparse.ArgumentParser(
        prog="python -m benchmarks.referee",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parse.add_subparsers(dest="command", required=True)
    one = {}
    for name, text in (
        ("list", "list instances and what is known of their optima"),
        ("get", "write the data of an instance and a checked proof of its optimum"),
        ("write", "write the problem of an instance to a file, .mps or .lp"),
        ("check", "check the index from the raw data; exit with 1 if a proof does not hold"),
        ("add", "check a proof and take it into the index"),
        ("build", "build proofs, check them, and write an index"),
    ):
        one[name] = commands.add_parser(name, help=text, description=text)
        one[name].add_argument("--index", type=Path, metavar="FILE", help="another index")
        if name != "list":
            one[name].add_argument("--data-dir", type=Path, metavar="FOLDER")
            one[name].add_argument("--proofs", type=Path, metavar="FOLDER", help="folder of proofs")
    for name in ("list", "check", "build"):
        add = one[name].add_argument
        add("words", nargs="*", metavar="WORD", help="words of the number, problem or data set")
        add("--part", choices=("core", "extended", "open", "all"), default="core")
        add("--kind", choices=("all", "convex", "search"), default="all")
        add("--hard", action="store_true", help="intervals wider than 1e-9 alone")
        if name != "list":
            add("--n-jobs", type=int, help="processes")
        if name != "build":
            add("--json", type=Path, metavar="FILE", help="- for the standard output")
            add("--csv", type=Path, metavar="FILE")
    one["check"].add_argument("--sample", type=int, metavar="N", help="check N, drawn at random")
    one["check"].add_argument("--seed", type=int, default=0, help="of the sample")
    one["get"].add_argument("instance", metavar="ID", help="the number, or its first digits")
    one["get"].add_argument("--out", type=Path, default=Path(), metavar="FOLDER")
    one["write"].add_argument("instance", metavar="ID")
    one["write"].add_argument("file", type=Path)
    one["add"].add_argument("proof", type=Path)
    one["add"].add_argument("--who", required=True, metavar="NAME", help="who found it")
    one["add"].add_argument("--version", default="", metavar="TEXT", help="with what")
    one["build"].add_argument("--who", default="svmcvx", metavar="NAME")
    return parse


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = parser().parse_args(arguments)
    try:
        return COMMANDS[given.command](given)
    except NotCertified as error:
        print(f"benchmarks.referee: {error}", file=sys.stderr)
        return FAILED
    except SvmcvxError as error:
        print(f"benchmarks.referee: {error}", file=sys.stderr)
        return UNUSABLE


def chosen_instances(given: argparse.Namespace) -> list[Instance]:
    """Return the instances that contain all words."""
    found = [
        one
        for one in library.instances(
            given.part, kind=given.kind, hard=given.hard, index=given.index
        )
        if all(word in one.id or word in str(one) for word in given.words)
    ]
    if not found:
        raise DataError(
            f"no instance of the part {given.part!r} and the kind {given.kind!r} contains"
            f" {' '.join(given.words)!r}; see 'python -m benchmarks.referee list'"
        )
    return found


def list_instances(given: argparse.Namespace) -> int:
    """Print instances and what is known of their optima."""
    known, rows = Index(given.index), []
    for one in chosen_instances(given):
        bounds = known.get(one.id)
        claims = () if bounds is None else bounds.claims
        rows.append(
            {
                "id": one.id,
                "data_set": one.data_set,
                "problem": str(one.problem),
                "part": one.part,
                "lower": bounds and bounds.lower,
                "upper": bounds and bounds.upper,
                "stated": bounds and bounds.stated,
                "status": "unknown" if bounds is None else bounds.status,
                "tolerance": "" if bounds is None else bounds.tolerance,
                "who": ", ".join(dict.fromkeys(claim.who for claim in claims)),
                "date": max((claim.date for claim in claims), default=""),
                "proofs": " ".join(claim.proof for claim in claims),
            }
        )
    frame = pd.DataFrame(rows)
    shown = frame[["id", "problem", "data_set", "lower", "upper", "stated", "status", "tolerance"]]
    _write(given, frame, shown.to_string(index=False), {"complete": True, "rows": rows})
    return DONE


def get(given: argparse.Namespace) -> int:
    """Write the data of an instance and a checked proof of its optimum."""
    wanted = find(given.instance)
    data, problem = library.get(wanted.id, data_dir=given.data_dir)
    data_file, proof = fetch(wanted, data, given.out, proofs=given.proofs)
    found = library.check([wanted], given.out, index=given.index, data_dir=given.data_dir)
    known = Index(given.index)
    print(f"{wanted.id}: {problem} on {data.name}, {data.X.shape[0]} × {data.X.shape[1]}")
    print(known.get(wanted.id) or "the index has no claim of it")
    for row in found.rows:
        print(f"proof: {row.verdict}{row.why and f': {row.why}'}")
    print(f"Wrote {data_file} and {proof}")
    return DONE if found else FAILED


def write(given: argparse.Namespace) -> int:
    """Write the problem of an instance, in weights where there is such a builder."""
    data, problem = library.get(given.instance, data_dir=given.data_dir)
    write_problem(problem.build(data.X, data.y, primal=True), given.file)
    return DONE


def check(given: argparse.Namespace) -> int:
    """Check the index from the raw data."""
    known = Index(given.index)
    chosen = [one for one in chosen_instances(given) if one.id in known]
    if given.sample is not None and given.sample < len(chosen):
        drawn = np.random.default_rng(given.seed).choice(len(chosen), given.sample, replace=False)
        chosen = [chosen[place] for place in np.sort(drawn)]
    found = library.check(
        chosen, given.proofs, index=given.index, data_dir=given.data_dir, n_jobs=given.n_jobs
    )
    lines = [
        f"{row.id}: {row.problem} on {row.data_set}: {row.why}"
        for row in found.rows
        if row.verdict == "failed"
    ]
    rows = [row._asdict() for row in found.rows]
    content = {"complete": found.complete, "holds": bool(found), "rows": rows}
    _write(given, found.to_frame(), "\n".join([*lines, str(found)]), content)
    if not found.complete:
        return INTERRUPTED
    return DONE if found else FAILED


def add(given: argparse.Namespace) -> int:
    """Check a proof and take it into the index."""
    found = library.add(
        given.proof,
        who=given.who,
        version=given.version,
        index=given.index,
        proofs=given.proofs,
        data_dir=given.data_dir,
    )
    said = "narrows the interval" if found.new else "the interval is as narrow already"
    print(f"{found.claim.id}: {said}", Index(given.index)[found.claim.id], sep="\n")
    return DONE


def build(given: argparse.Namespace) -> int:
    """Build proofs and an index."""
    folder = given.proofs or Path("proofs")
    index = given.index or folder / "index.csv"
    given.index = None
    chosen = chosen_instances(given)
    found = library.build(
        chosen, folder, index=index, data_dir=given.data_dir, who=given.who, n_jobs=given.n_jobs
    )
    without = [one for one in found if one.claim is None]
    for one in without:
        print(f"{one.id}: no proof: {one.why}")
    print(f"{len(found) - len(without)} of {len(found)} proofs are in {folder}, the index: {index}")
    return FAILED if without else DONE


COMMANDS = {
    "list": list_instances,
    "get": get,
    "write": write,
    "check": check,
    "add": add,
    "build": build,
}


def _write(
    given: argparse.Namespace, frame: pd.DataFrame, text: str, content: dict[str, object]
) -> None:
    """Print the text, or write the files that were asked for."""
    if given.json != Path("-") and given.csv != Path("-"):
        print(text)
    content = {"schema": 1, "command": given.command, **content}
    whole = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    for path, written in ((given.json, whole), (given.csv, frame.to_csv(index=False))):
        if path == Path("-"):
            sys.stdout.write(written)
        elif path is not None:
            path.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
