"""Models that fail, end their process, or never end, in a module that a worker imports quickly."""

import os
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Broken(ClassifierMixin, BaseEstimator):
    """Fails, or ends its process, on data with as many columns."""

    def __init__(self, columns=3, deadly=False):
        self.columns = columns
        self.deadly = deadly

    def fit(self, X, y):
        if X.shape[1] == self.columns:
            if self.deadly:
                os._exit(1)
            raise RuntimeError("this model\nfails")
        self.classes_, counts = np.unique(y, return_counts=True)
        self.most_ = self.classes_[counts.argmax()]
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.most_)


class Endless(ClassifierMixin, BaseEstimator):
    """Names its process in a folder, and never ends."""

    def __init__(self, folder=""):
        self.folder = folder

    def fit(self, X, y):
        Path(self.folder, str(os.getpid())).touch()
        while True:
            time.sleep(0.1)
