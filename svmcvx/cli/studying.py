"""The command ``study``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from svmcvx.cli import consoles, options, preparing
from svmcvx.cli.application import app, exit_code
from svmcvx.cli.consoles import Column
from svmcvx.cli.outputs import Outputs, check_writable

if TYPE_CHECKING:
    from svmcvx.experiments.studies import Study


@app.command()
def study(
    file: Annotated[
        Path,
        typer.Argument(
            help="The study as a TOML file: models, data sets, splits, grids.", metavar="FILE"
        ),
    ],
    data_dir: options.DataDir = None,
    time_limit: options.TimeLimit = None,
    n_jobs: options.NJobs = None,
    backend: options.Backend = None,
    store: options.Store = None,
    certify: options.CertifyOverFile = None,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Do failed tasks of the file of --store again.",
            rich_help_panel=options.LIMITS,
        ),
    ] = False,
    strict: options.Strict = False,
    proofs: options.Proofs = None,
    guarantee: options.Guarantee = False,
    json: options.Json = None,
    csv: options.Csv = None,
    latex: options.Latex = None,
    digits: options.Digits = 3,
    html: options.Html = None,
    quiet: options.Quiet = False,
) -> int:
    """Compare models over data sets and repeated splits, each tuned inside its training part.

    What is finished is kept in the file of --store, by default the study's own name with .sqlite.
    """
    outputs = Outputs(json, csv, latex, html, quiet)
    check_writable(store)
    from svmcvx.experiments.studies import study as run_study
    from svmcvx.experiments.studies.files import read_study
    from svmcvx.system import clock

    title, arguments = read_study(file)
    given: dict[str, Any] = {
        "store": store,
        "proofs": proofs,
        "data_dir": data_dir,
        "n_jobs": n_jobs,
        "backend": backend,
        "time_limit": time_limit,
        "certify": certify,
    }
    arguments |= {name: value for name, value in given.items() if value is not None}
    # The file may request more.
    arguments["guarantee"] = arguments.get("guarantee") or guarantee
    arguments.setdefault("store", file.with_suffix(".sqlite"))
    began = clock.now()
    with warnings.catch_warnings():
        # The command says so itself.
        warnings.filterwarnings("ignore", message=".* tasks: the result holds these")
        found = run_study(**arguments, retry_failed=retry_failed, progress=not quiet)
    limit = arguments.get("time_limit")
    late = not found.complete and limit is not None and clock.now() - began >= limit
    _print(outputs, title, found)
    preparing.tell_reused(outputs, found.reused, "task")
    outputs.write(
        "study",
        found.frame,
        {"title": title, **found.contents()},
        title=title,
        latex=lambda: found.to_latex(digits=digits),
        html=lambda path: found.report(path, title=title),
    )
    if not found.complete:
        consoles.errors.print(
            "svmcvx: the study is not complete; the same command goes on with it", style="yellow"
        )
    certified, solves = found.solves()
    failed = len(found.failures()) > 0 or bool(found.left_out) or (strict and certified < solves)
    return exit_code(complete=found.complete, late=late, failed=failed)


def _print(outputs: Outputs, title: str, found: Study) -> None:
    for metric in found.metrics:
        table = found.table(metric)
        columns = [Column("data set", list(map(str, table.index)), text=True)]
        columns += [
            Column(model, [cell.replace(" ", "") for cell in table[model]])
            for model in found.models
        ]
        consoles.show(outputs.screen, f"{title}: {metric}, mean ± standard deviation", columns)
    for metric in found.with_exact():
        exact = found.exact(metric)
        columns = [Column("data set", list(map(str, exact.index)), text=True)]
        columns += [Column(model, list(exact[model])) for model in found.models]
        consoles.show(
            outputs.screen,
            f"{title}: {metric} of every optimal machine, mean of the intervals",
            columns,
        )
    frame = found.frame
    certified, solves = found.solves()
    consoles.note(
        outputs.screen,
        f"{len(frame)} tasks, {len(found.failures())} failed; {certified} of {solves} solves"
        f" certified; {frame['seconds'].sum():.1f} s of work",
    )
    for told in found.notes():
        consoles.note(outputs.screen, told)
    for name, why in found.left_out.items():
        consoles.note(outputs.screen, f"{name} is left out: {why}")
    for model, why in found.without_exact().items():
        consoles.note(outputs.screen, f"{model}: {why}")
    for text, part in found.failures().groupby("note", sort=False):
        consoles.note(outputs.screen, f"{len(part)} failed: {text}")
