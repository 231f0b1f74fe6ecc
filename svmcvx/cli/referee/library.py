"""The commands ``library list``, ``get``, ``check``, ``add`` and ``build``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from svmcvx.cli import consoles, options
from svmcvx.cli.application import app, exit_code
from svmcvx.cli.consoles import Column, number
from svmcvx.cli.outputs import Outputs, check_writable
from svmcvx.errors import DataError

if TYPE_CHECKING:
    from svmcvx.library import Index, Instance

__all__ = ["add", "build", "check", "chosen_instances", "get", "list_instances"]

library = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help=(
        "Proved optima: instances, what is known of them, and the proofs, which the second checker"
        " goes through."
    ),
)
app.add_typer(library, name="library")

Words = Annotated[
    list[str] | None,
    typer.Argument(
        help=(
            "Words that the number, the problem or the data set of an instance contains, as in psvm"
            " p=1 iris."
        ),
        metavar="[WORD]...",
        show_default=False,
    ),
]
Part = Annotated[
    Literal["core", "extended", "open", "all"],
    typer.Option(
        help=(
            "Bundled and generated data; data sets of the papers; those that nobody has closed;"
            " all."
        )
    ),
]
Kind = Annotated[
    Literal["all", "convex", "search"],
    typer.Option(
        help="Convex problems; 0-1, ramp and l0, whose optimum is the end of a search; all."
    ),
]
Hard = Annotated[
    bool, typer.Option("--hard", help="Those alone whose interval is wider than 1e-9.")
]
IndexFile = Annotated[
    Path | None,
    typer.Option("--index", help="Another index than that of the package.", metavar="FILE"),
]
ProofsFolder = Annotated[Path | None, typer.Option(help="Folder of proofs.", metavar="FOLDER")]


def chosen_instances(
    words: list[str] | None,
    part: str,
    *,
    kind: str = "all",
    hard: bool = False,
    index: Path | None = None,
) -> list[Instance]:
    """Return the instances that contain all words."""
    from svmcvx.library import instances

    found = [
        one
        for one in instances(part, kind=kind, hard=hard, index=index)
        if all(word in one.id or word in str(one) for word in words or [])
    ]
    if not found:
        raise DataError(
            f"no instance of the part {part!r} and the kind {kind!r} contains"
            f" {' '.join(words or [])!r}; see 'svmcvx library list'"
        )
    return found


def _row(instance: Instance, known: Index) -> dict[str, Any]:
    bounds = known.get(instance.id)
    claims = () if bounds is None else bounds.claims
    return {
        "id": instance.id,
        "data_set": instance.data_set,
        "problem": str(instance.problem),
        "part": instance.part,
        "lower": bounds and bounds.lower,
        "upper": bounds and bounds.upper,
        "stated": bounds and bounds.stated,
        "status": "unknown" if bounds is None else bounds.status,
        "tolerance": "" if bounds is None else bounds.tolerance,
        "who": ", ".join(dict.fromkeys(claim.who for claim in claims)),
        "date": max((claim.date for claim in claims), default=""),
        "proofs": [claim.proof for claim in claims],
    }


@library.command("list")
def list_instances(
    words: Words = None,
    part: Part = "core",
    kind: Kind = "all",
    hard: Hard = False,
    index: IndexFile = None,
    json: options.Json = None,
    csv: options.Csv = None,
    quiet: options.Quiet = False,
) -> int:
    """List instances and what is known of their optima."""
    outputs = Outputs(json, csv, quiet=quiet)
    import pandas as pd

    from svmcvx.library import Index

    known = Index(index)
    rows = [
        _row(one, known) for one in chosen_instances(words, part, kind=kind, hard=hard, index=index)
    ]
    columns = [
        Column("id", [row["id"] for row in rows]),
        Column("problem", [row["problem"] for row in rows], text=True),
        Column("data set", [row["data_set"] for row in rows], text=True),
        Column("lower", [number(row["lower"], ".10g") for row in rows], rank=2, meaning="proved"),
        Column("upper", [number(row["upper"], ".10g") for row in rows], rank=1, meaning="proved"),
        Column("status", [row["status"] for row in rows]),
        Column("class", [row["tolerance"] for row in rows], rank=3, meaning="relative width"),
    ]
    if any(row["stated"] is not None for row in rows):
        ends = [number(row["stated"], ".10g") for row in rows]
        columns.insert(
            4,
            Column(
                "stated", ends, rank=2, meaning="lower end that a search states without a proof"
            ),
        )
    consoles.show(outputs.screen, f"{len(rows)} instances", columns, elsewhere=outputs.elsewhere)
    frame = pd.DataFrame([{**row, "proofs": " ".join(row["proofs"])} for row in rows])
    outputs.write("library list", frame, {"complete": True, "rows": rows}, title="Instances")
    return exit_code(complete=True, late=False, failed=False)


@library.command()
def get(
    instance: Annotated[
        str, typer.Argument(help="The number of the instance, or its first digits.", metavar="ID")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for the data and the proof; made if it does not exist.")
    ] = Path(),
    proofs: ProofsFolder = None,
    index: IndexFile = None,
    data_dir: options.DataDir = None,
    quiet: options.Quiet = False,
) -> int:
    """Write the data of an instance and a proof of its optimum, which is fetched from a folder or
    built, and checked.
    """
    screen = consoles.silent if quiet else consoles.output
    from svmcvx.library import Index, check, find
    from svmcvx.library import get as get_data
    from svmcvx.library.building import fetch

    wanted = find(instance)
    data, problem = get_data(wanted.id, data_dir=data_dir)
    data_file, proof = fetch(wanted, data, out, proofs=proofs)
    found = check([wanted], out, index=index, data_dir=data_dir)
    known = Index(index)
    lines = [
        f"{wanted.id}: {problem} on {data.name}, {data.X.shape[0]} × {data.X.shape[1]}",
        str(known[wanted.id]) if wanted.id in known else "the index has no claim of it",
        *(f"proof: {row.verdict}{row.why and f': {row.why}'}" for row in found.rows),
        f"Wrote {data_file} and {proof}",
    ]
    for line in lines:
        screen.print(line, markup=False, highlight=False, soft_wrap=True)
    return exit_code(complete=True, late=False, failed=not found)


@library.command()
def check(
    words: Words = None,
    part: Part = "core",
    kind: Kind = "all",
    hard: Hard = False,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Check this many, drawn at random.", metavar="N")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = 0,
    proofs: ProofsFolder = None,
    index: IndexFile = None,
    data_dir: options.DataDir = None,
    store: options.Store = None,
    n_jobs: options.NJobs = None,
    json: options.Json = None,
    csv: options.Csv = None,
    quiet: options.Quiet = False,
) -> int:
    """Check the index from the raw data: proofs are fetched from a folder or built; exit with 1 if
    one does not hold.
    """
    outputs = Outputs(json, csv, quiet=quiet)
    check_writable(store)
    import numpy as np

    from svmcvx.library import Index
    from svmcvx.library import check as check_library

    known = Index(index)
    chosen = [
        one
        for one in chosen_instances(words, part, kind=kind, hard=hard, index=index)
        if one.id in known
    ]
    if sample is not None and sample < len(chosen):
        drawn = np.random.default_rng(seed).choice(len(chosen), sample, replace=False)
        chosen = [chosen[place] for place in np.sort(drawn)]
    with consoles.progress(quiet=quiet) as bar:
        task = bar.add_task("check", total=len(chosen))
        found = check_library(
            chosen,
            proofs,
            index=index,
            data_dir=data_dir,
            store=store,
            n_jobs=n_jobs,
            progress=lambda _: bar.advance(task),
        )
    for row in found.rows:
        if row.verdict == "failed":
            text = f"{row.id}: {row.problem} on {row.data_set}: {row.why}"
            outputs.screen.print(text, markup=False, highlight=False, soft_wrap=True)
    outputs.screen.print(str(found), markup=False, highlight=False, soft_wrap=True)
    if not found.complete:
        advice = (
            "pass --store FILE to go on from there next time"
            if store is None
            else "the same command goes on"
        )
        consoles.errors.print(
            f"svmcvx: {len(found.rows)} of {len(chosen)} were checked; {advice}", style="yellow"
        )
    content = {
        "complete": found.complete,
        "holds": bool(found),
        "rows": [row._asdict() for row in found.rows],
    }
    outputs.write("library check", found.to_frame(), content, title="Check of the library")
    return exit_code(complete=found.complete, late=False, failed=not found)


@library.command()
def add(
    proof: Annotated[
        Path, typer.Argument(help="The file of a proof, by whatever program.", metavar="PROOF")
    ],
    who: Annotated[str, typer.Option(help="Who found it.", metavar="NAME")],
    version: Annotated[str, typer.Option(help="With what.", metavar="TEXT")] = "",
    index: IndexFile = None,
    proofs: Annotated[
        Path | None,
        typer.Option(
            help="Folder to which a proof that narrows an interval is copied.", metavar="FOLDER"
        ),
    ] = None,
    data_dir: options.DataDir = None,
    quiet: options.Quiet = False,
) -> int:
    """Check a proof and take it into the index: the largest lower and the smallest upper bound
    stay.
    """
    screen = consoles.silent if quiet else consoles.output
    from svmcvx.errors import NotCertified
    from svmcvx.library import Index
    from svmcvx.library import add as add_proof

    try:
        found = add_proof(
            proof, who=who, version=version, index=index, proofs=proofs, data_dir=data_dir
        )
    except NotCertified as error:
        consoles.errors.print(
            f"svmcvx: {error}", style="red", markup=False, highlight=False, soft_wrap=True
        )
        return exit_code(complete=True, late=False, failed=True)
    said = (
        "narrows the interval"
        if found.new
        else "the interval is as narrow already; nothing was changed"
    )
    for line in (f"{found.claim.id}: {said}", str(Index(index)[found.claim.id])):
        screen.print(line, markup=False, highlight=False, soft_wrap=True)
    return exit_code(complete=True, late=False, failed=False)


@library.command()
def build(
    words: Words = None,
    proofs: Annotated[
        Path,
        typer.Option(
            help="Folder of the proofs; the same command goes on with it.", metavar="FOLDER"
        ),
    ] = Path("proofs"),
    part: Part = "core",
    kind: Kind = "all",
    hard: Hard = False,
    index: Annotated[
        Path | None, typer.Option(help="The index; beside the proofs by default.", metavar="FILE")
    ] = None,
    who: Annotated[str, typer.Option(help="Who is named in the index.", metavar="NAME")] = "svmcvx",
    data_dir: options.DataDir = None,
    n_jobs: options.NJobs = None,
    quiet: options.Quiet = False,
) -> int:
    """Build proofs, check them, and write what they say into an index; what is there is not built
    again.
    """
    screen = consoles.silent if quiet else consoles.output
    check_writable(index)
    from svmcvx.library import build as build_library

    file = proofs / "index.csv" if index is None else index
    chosen = chosen_instances(words, part, kind=kind, hard=hard)
    with consoles.progress(quiet=quiet) as bar:
        task = bar.add_task("build", total=len(chosen))
        found = build_library(
            chosen,
            proofs,
            index=file,
            data_dir=data_dir,
            who=who,
            n_jobs=n_jobs,
            progress=lambda _: bar.advance(task),
        )
    without = [one for one in found if one.claim is None]
    for one in without:
        screen.print(
            f"{one.id}: no proof: {one.why}", markup=False, highlight=False, soft_wrap=True
        )
    text = (
        f"{len(found) - len(without)} of {len(found)} proofs are in {proofs}, the index is {file}"
    )
    screen.print(text, markup=False, highlight=False, soft_wrap=True)
    return exit_code(complete=True, late=False, failed=bool(without))
