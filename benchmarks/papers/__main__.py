"""Compute a table of a paper again, beside the printed numbers: as its text says, and as the
released code does.

    python -m benchmarks.papers                              # the tables
    python -m benchmarks.papers psvm-table1 --quick          # a part of one
    python -m benchmarks.papers odm-table2 --store odm.sqlite --n-jobs 4 --csv odm.csv

Exit codes: 0 all was done; 1 something failed; 2 arguments or data cannot be used; 3 the time limit
ended it; 130 Ctrl-C ended it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import svmcvx
from benchmarks.papers import (
    Reproduction,
    check_figures,
    reproduce,
    reproducible,
    write_figures,
    write_report,
)
from benchmarks.papers.result import cell_text
from svmcvx import SvmcvxError
from svmcvx.experiments.store import plain
from svmcvx.experiments.tables import latex_frame

DONE, FAILED, UNUSABLE, TIME_OVER, INTERRUPTED = 0, 1, 2, 3, 130
# Options that name a file to be written.
FILES = ("json", "csv", "latex", "html", "record", "store")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parse = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parse.add_argument
    add("table", nargs="?", metavar="TABLE", help="a table; without one, all are listed")
    add("--quick", action="store_true", help="a part of the table that takes little time")
    add("--repeats", type=int, help="repetitions, where numbers are means over some")
    add("--every", type=int, metavar="N", help="take every N-th value of each grid")
    add("--set", dest="sets", action="append", help="a data set of the table; may be repeated")
    add("--figures", type=Path, metavar="FOLDER", help="folder for the figures, as SVG")
    add("--data-dir", type=Path, metavar="FOLDER", help="folder of .npz data sets; SVMCVX_DATA")
    add("--time-limit", type=float, metavar="SECONDS", help="seconds for everything")
    add("--n-jobs", type=int, help="fits at a time; -1 for all cores")
    add("--store", type=Path, metavar="FILE", help=".sqlite file; the same command goes on with it")
    add("--json", type=Path, metavar="FILE", help="everything that is known; - for the output")
    add("--csv", type=Path, metavar="FILE", help="the table with all columns")
    add("--latex", type=Path, metavar="FILE", help="the table as LaTeX")
    add("--html", type=Path, metavar="FILE", help="a report (extra study)")
    add("--record", type=Path, metavar="FILE", help="what the table was computed with, as JSON")
    add("--quiet", "-q", action="store_true", help="print warnings and errors only")
    return parse


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = parser().parse_args(arguments)
    try:
        return _list(given) if given.table is None else _reproduce(given)
    except SvmcvxError as error:
        print(f"benchmarks.papers: {error}", file=sys.stderr)
        return UNUSABLE


def _list(given: argparse.Namespace) -> int:
    rows = [{"table": name, "title": title} for name, title in reproducible().items()]
    if not given.quiet and given.json != Path("-"):
        print("\n".join(f"{row['table']}: {row['title']}" for row in rows))
    if given.json is not None:
        _write(given, given.json, _json({"complete": True, "rows": rows}))
    return DONE


def _reproduce(given: argparse.Namespace) -> int:
    for path in (getattr(given, name) for name in FILES):
        if path not in (None, Path("-")) and not os.access(path.absolute().parent, os.W_OK):
            raise svmcvx.errors.DataError(
                f"{path} cannot be written; name a file in an existing folder"
            )
    if given.figures is not None:
        check_figures(given.table, given.figures)
    began = time.monotonic()
    with warnings.catch_warnings():
        # The command says so itself.
        warnings.filterwarnings("ignore", message=".* tasks: the result holds these")
        found = reproduce(
            given.table,
            quick=given.quick,
            repeats=given.repeats,
            every=given.every,
            sets=given.sets,
            data_dir=given.data_dir,
            store=given.store,
            n_jobs=given.n_jobs,
            progress=not given.quiet,
            time_limit=given.time_limit,
        )
    late = given.time_limit is not None and time.monotonic() - began >= given.time_limit
    _outputs(given, found)
    if not found.complete:
        print(
            "benchmarks.papers: the table is not complete; "
            + (
                "pass --store FILE to go on from there next time"
                if given.store is None
                else "the same command goes on with it"
            ),
            file=sys.stderr,
        )
        return TIME_OVER if late else INTERRUPTED
    return FAILED if len(found.study.failures()) or found.study.left_out else DONE


def _outputs(given: argparse.Namespace, found: Reproduction) -> None:
    """Print the table and write the files that were asked for."""
    if not given.quiet and Path("-") not in (given.json, given.csv, given.latex):
        _print(found)
    if given.json is not None:
        content = {
            "complete": found.complete,
            "table": given.table,
            "title": found.title,
            "quick": given.quick,
            "notes": found.notes,
            "rows": found.frame.to_dict("records"),
        }
        facts = ("complete", "left_out", "reused", "protocol", "model_lines", "grids")
        study = {name: getattr(found.study, name, None) for name in facts}
        content["study"] = study | {"rows": found.study.frame.to_dict("records")}
        _write(given, given.json, _json(content))
    if given.csv is not None:
        _write(given, given.csv, found.frame.to_csv(index=False))
    if given.latex is not None:
        _write(given, given.latex, latex_frame(found.frame))
    if given.html is not None:
        write_report(found, given.html)
    if given.figures is not None:
        write_figures(found, given.figures)
    if given.record is not None:
        found.to_record(given.record)


def _print(found: Reproduction) -> None:
    shown = found.frame[[name for name in found.shown if name in found.frame]]
    shown = shown.rename(
        columns=lambda name: (
            name.replace("as_", "").replace("_difference", " less published").replace("_", " ")
        )
    )
    print(found.title, shown.map(cell_text).to_string(index=False), *found.notes, sep="\n")
    certified, solves = found.study.solves()
    seconds = found.study.frame["seconds"].sum()
    print(f"{certified} of {solves} solves certified; {seconds:.1f} s of work")
    if reused := found.study.reused:
        print(f"{reused} tasks are from the store")
    for name, why in found.study.left_out.items():
        print(f"{name} is left out: {why}")


def _json(content: dict[str, Any]) -> str:
    whole = {"schema": 1, "command": "reproduce", "svmcvx": svmcvx.__version__, **content}
    return json.dumps(plain(whole), indent=1, ensure_ascii=False) + "\n"


def _write(given: argparse.Namespace, path: Path, text: str) -> None:
    if path == Path("-"):
        sys.stdout.write(text)
        return
    path.write_text(text, encoding="utf-8")
    if not given.quiet:
        print(f"Wrote {path}")


if __name__ == "__main__":
    sys.exit(main())
