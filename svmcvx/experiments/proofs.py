"""Proofs of the rows of a comparison, and the data that they are about."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svmcvx.datasets.files import write_npz
from svmcvx.errors import DataError
from svmcvx.estimators.pairs import CompositeSolution
from svmcvx.solution import Solution

__all__ = ["ProofFolder"]

TRAINING = "training.npz"


class ProofFolder:
    """A folder with the training data of a comparison and a proof of each of its solutions."""

    def __init__(self, folder: str | os.PathLike[str], X: Any, y: NDArray[Any]) -> None:
        self.folder, self.y = Path(folder), np.asarray(y)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"proofs cannot be used as a folder: {error}") from None
        if not isinstance(X, DataError):
            write_npz(self.folder / TRAINING, X, self.y)

    def of_model(self, name: str) -> Path:
        """Return the folder of a model that has seen other data than the rest."""
        return self.folder / _stem(name)

    def write(self, name: str, solution: Solution) -> str:
        """Write the proof of one row, one a pair of classes for several; return a note on the
        proofs that were not written.
        """
        stem = _stem(name)
        try:
            if not isinstance(solution, CompositeSolution):
                solution.save_proof(self.folder / f"{stem}.npz")
                return ""
            for key, part in solution.parts.items():
                if not isinstance(key, tuple):
                    return "one class against the rest: no proofs were written"
                rows = np.flatnonzero(np.isin(self.y, key))
                model: Any = part.model
                own = replace(
                    part, model=replace(model, support=np.searchsorted(rows, model.support))
                )
                own.save_proof(self.folder / f"{stem}.{key[0]}-{key[1]}.npz")
        except DataError as error:
            return f"no proof: {error}"
        return ""


def _stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9=.,_-]+", "_", name).strip("_.")[:100] or "_"
