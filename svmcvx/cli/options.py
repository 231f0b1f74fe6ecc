"""The arguments and options that several commands share: the same name, the same meaning,
everywhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from svmcvx.cli import completion
from svmcvx.datasets.names import BUILT_IN

__all__ = [
    "Backend",
    "Certify",
    "CertifyOverFile",
    "Csv",
    "Cv",
    "Data",
    "DataDir",
    "Digits",
    "Drop",
    "FitTimeLimit",
    "Gamma",
    "Guarantee",
    "Html",
    "Json",
    "Keep",
    "Kernel",
    "Latex",
    "Missing",
    "NJobs",
    "Proofs",
    "Quiet",
    "Scale",
    "Scaling",
    "Solver",
    "Store",
    "Strict",
    "Target",
    "TimeLimit",
    "Tol",
    "Weight",
]

DATA, MODEL, LIMITS, OUTPUT = "Data", "Model", "Limits and workers", "Output"

# Data

Data = Annotated[
    str,
    typer.Argument(
        help=(
            f"A built-in data set ({', '.join(BUILT_IN)}), a set of the papers (see datasets), a"
            " name in the data folder, or a file: .csv, .tsv, .txt, .parquet, .npz, or LIBSVM's"
            " under any name; text also packed (.gz, .bz2, .xz). Append :a-b to select two"
            " classes, as in digits:3-8."
        ),
        metavar="DATA",
        autocompletion=completion.data,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(help="Column of the labels in a table.", metavar="COLUMN", rich_help_panel=DATA),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of a table to leave out; may be repeated.",
        metavar="COLUMN",
        rich_help_panel=DATA,
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="Column that seems to number or name the rows, but is a feature; may be repeated.",
        metavar="COLUMN",
        rich_help_panel=DATA,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder of .npz data sets; the variable SVMCVX_DATA by default.",
        metavar="FOLDER",
        rich_help_panel=DATA,
    ),
]
Missing = Annotated[
    Literal["error", "drop", "median"],
    typer.Option(
        help=(
            "What is done about missing values, of numbers and of text: drop rows, or fill in the"
            " median of the training part."
        ),
        rich_help_panel=DATA,
    ),
]
Scaling: TypeAlias = Literal["standard", "minmax", "none"]
Scale = Annotated[
    Scaling, typer.Option(help="Scaling of the columns by the training part.", rich_help_panel=DATA)
]

# Models

Kernel = Annotated[
    Literal["none", "linear", "rbf", "exponential", "laplacian", "poly", "sigmoid"],
    typer.Option(help="Kernel of every model that takes one.", rich_help_panel=MODEL),
]
Weight = Annotated[
    float,
    typer.Option(
        "--C",
        min=0.0,
        help="Weight of the losses of every model that has one.",
        rich_help_panel=MODEL,
    ),
]
Gamma = Annotated[
    str, typer.Option(help="Kernel parameter: scale, auto or a number.", rich_help_panel=MODEL)
]
Solver = Annotated[
    str, typer.Option(help="auto, fast, or one solver (see doctor).", rich_help_panel=MODEL)
]
Tol = Annotated[
    float,
    typer.Option(
        help="Relative gap that is asked for, and up to which an answer counts as certified.",
        rich_help_panel=MODEL,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Exit with 1 if an answer is not certified.", rich_help_panel=MODEL
    ),
]
Cv = Annotated[
    int,
    typer.Option(min=2, help="Folds of the cross-validation, stratified.", rich_help_panel=MODEL),
]

# Limits and workers

TimeLimit = Annotated[
    float | None,
    typer.Option(help="Seconds for everything.", metavar="SECONDS", rich_help_panel=LIMITS),
]
FitTimeLimit = Annotated[
    float | None,
    typer.Option(help="Seconds for each fit.", metavar="SECONDS", rich_help_panel=LIMITS),
]
NJobs = Annotated[
    int | None,
    typer.Option(
        help="Fits at a time: 1 by default, -1 for all cores; all workers with Dask.",
        rich_help_panel=LIMITS,
    ),
]
Backend = Annotated[
    str | None,
    typer.Option(
        "--backend",
        "--scheduler",
        help=(
            "Address of a running Dask scheduler, as in tcp://10.0.0.1:8786; or loky (processes),"
            " threading."
        ),
        metavar="ADDRESS",
        rich_help_panel=LIMITS,
    ),
]
Store = Annotated[
    Path | None,
    typer.Option(
        "--store",
        "--resume",
        help=(
            "File of what is finished (.sqlite; made if it is not there): the same command goes on"
            " with it."
        ),
        metavar="FILE",
        rich_help_panel=LIMITS,
    ),
]
_CERTIFY: Any = typer.Option(
    help=(
        "Which fits of a tuning have certificates: all, or those of the chosen setting and its"
        " neighbours in the grid, the others being solved in quick batches where there are some."
    ),
    rich_help_panel=MODEL,
)
Certify = Annotated[Literal["all", "chosen"], _CERTIFY]
# Where a file may say so as well.
CertifyOverFile = Annotated[Literal["all", "chosen"] | None, _CERTIFY]
Guarantee = Annotated[
    bool,
    typer.Option(
        "--guarantee",
        help=(
            "Tell what every optimal machine scores on the test part; it may take ten times as long"
            " as the fits."
        ),
        rich_help_panel=MODEL,
    ),
]
Proofs = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the training data and a proof of each solution; see verify.",
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
    ),
]

# Output; a file named - is the standard output.

Json = Annotated[
    Path | None,
    typer.Option(
        "--json",
        help="File for everything that is known, as JSON; - for the standard output.",
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]
Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        help="File for the table with all columns; - as above.",
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]
Latex = Annotated[
    Path | None,
    typer.Option(
        "--latex",
        help="File for the table as LaTeX; - as above.",
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]
Digits = Annotated[
    int, typer.Option(min=0, max=12, help="Decimals of scores in LaTeX.", rich_help_panel=OUTPUT)
]
Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        "--report",
        help="File for a report as HTML (extra study).",
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print warnings and errors only.", rich_help_panel=OUTPUT),
]
