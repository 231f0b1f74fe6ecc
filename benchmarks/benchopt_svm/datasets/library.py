"""Instances of the library of proved optima, by their numbers: those of
``benchmarks/race_instances.txt`` unless others are named.
"""

from pathlib import Path

from benchopt import BaseDataset

from benchmarks.referee.library import get

LINES = (
    Path(__file__)
    .parents[2]
    .joinpath("race_instances.txt")
    .read_text(encoding="utf-8")
    .splitlines()
)


class Dataset(BaseDataset):
    name = "library"
    parameters = {"instance": [line.split()[0] for line in LINES if not line.startswith("#")]}
    requirements = ["pip::svmcvx"]

    def get_data(self):
        data, _ = get(self.instance)
        return {"X": data.X, "y": data.y, "instance": self.instance}
