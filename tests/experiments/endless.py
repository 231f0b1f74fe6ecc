"""A model that never ends, in a module that a worker imports quickly."""

import os
import time
from pathlib import Path

from sklearn.base import BaseEstimator, ClassifierMixin


class Endless(ClassifierMixin, BaseEstimator):
    """Names its process in a folder, and never ends."""

    def __init__(self, folder="", number=0):
        self.folder = folder
        self.number = number

    def fit(self, X, y):
        Path(self.folder, str(os.getpid())).touch()
        while True:
            time.sleep(0.1)
