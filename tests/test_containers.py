"""What data come in: frames, tensors, masked and lazy containers; and functions that write to what
they get.
"""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import chi2_kernel

import svmcvx as sx
from svmcvx.data import owned
from tests.conftest import make_data

X, Y = make_data(n=24)
HOLES = np.ma.masked_greater(X, np.sort(X.ravel())[-3])


class Frame:
    """As a frame of polars: it is cloned, not copied, and read by ``numpy.asarray``."""

    def __init__(self, values):
        self.values, self.columns = values, [f"feature{j}" for j in range(values.shape[1])]

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)

    def to_numpy(self):
        return self.values

    def clone(self):
        return Frame(self.values.copy())


class Lazy:
    """As a lazy frame: nothing that could be read."""

    def collect(self):
        return X


class Tracked:
    """As a tensor with gradients."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Use tensor.detach().numpy() instead")


BUILDERS = [sx.psvm_primal, sx.odm_primal, sx.weston_watkins, partial(sx.zero_one_mio, lam=0.1)]


@pytest.mark.parametrize("build", BUILDERS)
def test_builders_own_what_is_cloned(build):
    frame = Frame(X.copy())
    statement = build(frame, Y).formulation
    frame.values[:] = 7.0
    space = statement.scores if hasattr(statement, "scores") else statement.space
    np.testing.assert_array_equal(space.data.X, X)


def test_copies_are_made_of_what_can_change():
    for value in (X, sp.csr_array(X), pd.DataFrame(X), Frame(X), np.ma.masked_array(X)):
        assert owned(value) is not value
        assert type(owned(value)) is type(value)
    for value in (None, 1.0, "rbf", [[1.0]], sx.RBF(), np.exp):
        assert owned(value) is value


CALLS = {
    "builder": sx.psvm_primal,
    "estimator": lambda X, y, **weights: sx.PSVMClassifier().fit(X, y, **weights),
    "fast": sx.fast.psvm,
    "several classes": sx.fast.multiclass,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_masked_arrays_lose_no_mask_in_silence(call):
    with pytest.raises(sx.DataError, match=r"X is a masked array with \d masked"):
        call(HOLES, Y)
    with pytest.raises(sx.DataError, match=r"y is a masked array with \d+ masked"):
        call(X, np.ma.masked_equal(Y, 1))
    with pytest.raises(sx.DataError, match="sample_weight is a masked array with 1 masked"):
        call(X, Y, sample_weight=np.ma.masked_less(np.arange(24.0), 1.0))
    # Without a masked entry it is an array like others.
    call(np.ma.masked_array(X), np.ma.masked_array(Y))


def test_masked_arrays_elsewhere():
    model = sx.PSVMClassifier().fit(X, Y)
    for call in (model.predict, model.decision_function, model.solution_.model.predict):
        with pytest.raises(sx.DataError, match="masked"):
            call(HOLES)
    with pytest.raises(sx.DataError, match="y is a masked"):
        model.score(X, np.ma.masked_equal(Y, 1))
    blocks = sx.RowBlocks([lambda: (X, np.ma.masked_equal(Y, 1))], labelled=True)
    with pytest.raises(sx.DataError, match="masked"):
        sx.fast.psvm(blocks, blocks.y)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_unreadable_container_says_what_to_do(call):
    for data, labels, message in (
        (Lazy(), Y, r"X is a Lazy, which holds no rows yet; pass X\.collect\(\)"),
        (Tracked(), Y, "X cannot be read.*detach"),
        (X, Tracked(), "y cannot be read.*detach"),
    ):
        with pytest.raises(sx.DataError, match=message):
            call(data, labels)


@pytest.mark.parametrize(
    "build", [lambda X, y, **k: sx.solve(sx.psvm_dual(X, y, **k)), sx.fast.psvm]
)
def test_a_kernel_function_may_write_to_its_arguments(build):
    data = np.abs(X)
    kept = data.copy()

    def linear(A, B):
        A += 0.0
        product = A @ B.T
        A *= np.nan
        return product

    # scikit-learn's compiled chi-squared kernel refuses arrays that are read-only.
    for kernel in (chi2_kernel, linear):
        solution = build(data, Y, kernel=kernel)
        assert solution.certificate.is_certified(1e-6)
        assert np.isfinite(solution.model.decision_function(data)).all()
    np.testing.assert_array_equal(data, kept)
    plain = build(data, Y, kernel="linear")
    assert solution.certificate.upper == pytest.approx(plain.certificate.upper, rel=1e-6)


# The packages themselves, where they are installed


def test_polars():
    pl = pytest.importorskip("polars")
    frame, labels = pl.DataFrame(X, schema=[f"x{j}" for j in range(X.shape[1])]), pl.Series(Y)
    expected = sx.solve(sx.psvm_primal(X, Y)).certificate.upper
    assert sx.solve(sx.psvm_primal(frame, labels)).certificate.upper == expected
    fitted = sx.PSVMClassifier().fit(frame, labels)
    assert list(fitted.feature_names_in_) == frame.columns
    assert fitted.score(frame, labels) > 0.5


def test_tensors():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(X)
    problem = sx.psvm_primal(tensor, torch.tensor(Y))
    tensor[:] = 7.0
    np.testing.assert_array_equal(problem.formulation.space.data.X, X)
    with pytest.raises(sx.DataError, match="detach"):
        sx.psvm_primal(torch.tensor(X, requires_grad=True), Y)
