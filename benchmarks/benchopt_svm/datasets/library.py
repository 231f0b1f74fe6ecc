"""An instance of the library of proved optima, by its number."""

from benchopt import BaseDataset

from svmcvx.library import get


class Dataset(BaseDataset):
    name = "library"
    # psvm C=1 p=1, free and penalised intercept, on gauss-60x2 and breast_cancer/standard.
    parameters = {"instance": ["499669b9358707b0", "4499432ac34526eb", "2a76bfc1e8b2adb9", "ba779a59b7d26538"]}
    requirements = ["pip::svmcvx"]

    def get_data(self):
        data, _ = get(self.instance)
        return {"X": data.X, "y": data.y, "instance": self.instance}
