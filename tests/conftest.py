"""Data that many tests share. No test needs a network, a licence or a data folder."""

import os

import numpy as np
import pytest
from hypothesis import settings
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

settings.register_profile("svmcvx", deadline=None, max_examples=25, derandomize=bool(os.environ.get("CI")))
settings.load_profile("svmcvx")


def make_data(seed=0, n=40, d=3, overlap=1.0):
    """Two Gaussian clouds that overlap."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, -1, 1)
    X = rng.standard_normal((n, d)) * overlap + 0.7 * y[:, None]
    return X, y


@pytest.fixture(scope="session")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture
def clouds():
    return make_data()
