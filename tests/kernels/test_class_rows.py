"""Rows of a kernel matrix that several problems share."""

import numba
import numpy as np
import pytest

import svmcvx as sx
from svmcvx.certificate.bounded import ULPS
from svmcvx.kernels import Laplacian, Linear, Polynomial
from svmcvx.kernels.class_rows import MANY_COLUMNS, ClassRows, Layout
from svmcvx.kernels.class_rows_passes import exponentials

LAYOUT = Layout([0, 4, 9, 15], [[0, 1], [0, 2], [1, 2], [2, -1]])


@numba.njit(cache=True)
def exponentials_of(x, scratch):
    exponentials(x, scratch)


def test_exponentials_are_accurate_to_the_ulps_that_bounds_take_for_granted():
    rng = np.random.default_rng(0)
    halves = -np.log(2.0) * (np.arange(2000) / 2.0)[:, None]
    near_whole = halves + 1e-9 * rng.standard_normal((2000, 20))
    others = -(10.0 ** rng.uniform(-20, 2.85, 200_000)), [0.0, -0.0, -708.0, -707.999]
    x = np.concatenate([near_whole.ravel(), *others])
    x = x[(x <= 0.0) & (x >= -708.0)]
    found = x.copy()
    exponentials_of(found, np.empty_like(x))
    true = np.exp(x.astype(np.longdouble))
    assert np.abs((found - true) / np.spacing(true.astype(np.float64))).max() <= ULPS / 2
    below = np.array([-708.0001, -1e4, -1e300, -np.inf])
    exponentials_of(below, np.empty_like(below))
    assert ((below >= 0.0) & (below <= 1e-300)).all()


def test_a_layout_places_every_observation_of_every_part():
    assert LAYOUT.sizes.tolist() == [9, 10, 11, 6]
    listed = np.concatenate([LAYOUT.rows(part) for part in range(LAYOUT.parts)])
    assert np.array_equal(LAYOUT.all_rows, listed)
    assert LAYOUT.rows(1).tolist() == [0, 1, 2, 3, 9, 10, 11, 12, 13, 14]
    assert np.array_equal(listed[LAYOUT.of_part(2)], LAYOUT.rows(2))


KERNELS = [sx.RBF(0.3), sx.RBF(40.0), Linear(), Polynomial(3, gamma=0.2, coef0=1.0), Laplacian(0.4)]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("columns", [3, MANY_COLUMNS])
@pytest.mark.parametrize("hostile", ["nothing", "offset", "outlier", "twins"])
def test_products_contain_those_in_higher_precision(kernel, columns, hostile):
    rng = np.random.default_rng(columns)
    X = rng.standard_normal((15, columns)) / np.sqrt(columns)
    X[8] = X[3] if hostile == "twins" else X[8]
    X = X + 1e6 if hostile == "offset" else X
    X[5] *= 1e8 if hostile == "outlier" else 1.0
    rows = ClassRows(kernel, X, LAYOUT.starts, room=15 * 15)
    v = rng.standard_normal(LAYOUT.offsets[-1]) * (rng.random(LAYOUT.offsets[-1]) < 0.6)
    found = rows.products(LAYOUT, v)
    wide = X.astype(np.longdouble)
    if isinstance(kernel, sx.RBF):
        K = np.exp(-np.longdouble(kernel.gamma) * ((wide[:, None] - wide) ** 2).sum(axis=2))
    elif isinstance(kernel, Laplacian):
        K = np.exp(-np.longdouble(kernel.gamma) * np.abs(wide[:, None] - wide).sum(axis=2))
    else:
        K = wide @ wide.T
        if isinstance(kernel, Polynomial):
            K = (np.longdouble(kernel.gamma) * K + 1.0) ** 3
    for part in range(LAYOUT.parts):
        own, at = LAYOUT.of_part(part), LAYOUT.rows(part)
        exact = K[np.ix_(at, at)] @ v[own].astype(np.longdouble)
        assert (np.abs(found.value[own] - exact) <= found.error[own]).all()
    if hostile == "nothing":
        assert (found.error <= 1e-10 * (1.0 + np.abs(found.value))).all()


def test_what_is_left_to_other_methods():
    X = np.ones((15, 2))
    v = np.ones(LAYOUT.offsets[-1])
    assert ClassRows(sx.RBF(1.0), X, LAYOUT.starts, room=14).products(LAYOUT, v) is None
    assert ClassRows.takes(None, X, 1)
    assert ClassRows.takes(sx.RBF(1.0), X, 1)
    assert not ClassRows.takes(Laplacian(1.0), X, 15)
    assert not ClassRows.takes(None, 1e120 * X, 16)
    for kernel in (sx.RBF(1e200), sx.Sigmoid(1.0), Polynomial(3, gamma=1.0, coef0=-1.0)):
        assert not ClassRows.takes(kernel, X, 16)
