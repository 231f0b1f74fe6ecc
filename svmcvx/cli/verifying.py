"""The command ``verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import svmcvx
from svmcvx.cli import consoles
from svmcvx.cli.application import app
from svmcvx.datasets import load as load_data_set


@app.command()
def verify(
    proof: Annotated[Path, typer.Argument(help="A file that save_proof, or compare --proofs, has written.")],
    dataset: Annotated[
        str,
        typer.Argument(
            help="The data that it is about, as for compare: training.npz beside the proofs of a comparison."
        ),
    ],
    target: Annotated[str | None, typer.Option(help="Column of the labels in a CSV or Parquet file.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of .npz data sets; the variable SVMCVX_DATA by default.")
    ] = None,
    precision: Annotated[int, typer.Option(help="Bits of the ball arithmetic.")] = 128,
) -> int:
    """Check an interval from the raw data by a second program; exit with 0 if it holds, 1 if not."""
    data = load_data_set(dataset, data_dir, target=target)
    found = svmcvx.verify(proof, data.X, data.y, precision=precision)
    lower = "no lower bound" if found.lower is None else f"lower {found.lower:.17g}"
    consoles.output.print(f"proved: {lower}, upper {found.upper:.17g}", markup=False, highlight=False, soft_wrap=True)
    verdict = "the proof holds" if found.holds else "the proof does not hold"
    consoles.output.print(
        f"{verdict}{': ' + found.why if found.why else ''}", markup=False, highlight=False, soft_wrap=True
    )
    return 0 if found.holds else 1
