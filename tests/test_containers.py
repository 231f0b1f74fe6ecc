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
from svmcvx.containers import owned
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


BUILDERS = [
    sx.psvm_primal,
    sx.psvm_dual,
    sx.odm_primal,
    sx.weston_watkins,
    partial(sx.zero_one_mio, lam=0.1),
]


@pytest.mark.parametrize("build", BUILDERS)
def test_builders_own_what_is_cloned(build):
    frame = Frame(X.copy())
    problem = build(frame, Y)
    statement = problem.formulation
    data = statement.scores.data if hasattr(statement, "scores") else statement.space.data
    frame.values[:] = 7.0
    np.testing.assert_array_equal(data.X, X)


def test_names_of_a_cloned_frame_are_told():
    broken = X.copy()
    broken[2, 1] = np.nan
    with pytest.raises(sx.DataError, match="NaN in column feature1"):
        sx.psvm_primal(Frame(broken), Y)


def test_copies_are_made_of_what_can_change():
    for value in (X, sp.csr_array(X), pd.DataFrame(X), Frame(X), np.ma.masked_array(X)):
        assert owned(value) is not value
        assert type(owned(value)) is type(value)
    for value in (None, 1.0, "rbf", [[1.0]], sx.RBF(), np.exp):
        assert owned(value) is value


CALLS = {
    "builder": lambda data, labels, weight=None: sx.psvm_primal(data, labels, sample_weight=weight),
    "estimator": lambda data, labels, weight=None: sx.PSVMClassifier().fit(
        data, labels, sample_weight=weight
    ),
    "fast": lambda data, labels, weight=None: sx.fast.psvm(data, labels, sample_weight=weight),
    "several classes": lambda data, labels, weight=None: sx.fast.multiclass(
        data, labels, sample_weight=weight
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_masked_arrays_lose_no_mask_in_silence(call):
    with pytest.raises(sx.DataError, match=r"X is a masked array with \d masked"):
        call(HOLES, Y)
    with pytest.raises(sx.DataError, match=r"y is a masked array with \d+ masked"):
        call(X, np.ma.masked_equal(Y, 1))
    with pytest.raises(sx.DataError, match="sample_weight is a masked array with 1 masked"):
        call(X, Y, np.ma.masked_less(np.arange(24.0), 1.0))
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
def test_what_cannot_be_read_says_what_to_do(call):
    with pytest.raises(
        sx.DataError, match=r"X is a Lazy, which holds no rows yet; pass X\.collect\(\)"
    ):
        call(Lazy(), Y)
    with pytest.raises(sx.DataError, match=r"X cannot be read.*detach"):
        call(Tracked(), Y)
    with pytest.raises(sx.DataError, match=r"y cannot be read.*detach"):
        call(X, Tracked())


def test_column_names_of_mixed_types():
    frame = pd.DataFrame(X, columns=["a", 1, *map(str, range(2, X.shape[1]))])
    with pytest.raises(sx.DataError, match="the columns of X: Feature names"):
        sx.PSVMClassifier().fit(frame, Y)


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


def test_a_kernel_function_sees_that_both_arguments_are_the_same():
    seen = []

    def kernel(A, B):
        seen.append(A is B)
        return A @ B.T

    sx.PSVMClassifier(kernel=kernel).fit(X, Y)
    assert any(seen)


# The packages themselves, where they are installed


def test_polars():
    pl = pytest.importorskip("polars")
    frame, labels = pl.DataFrame(X, schema=[f"x{j}" for j in range(X.shape[1])]), pl.Series(Y)
    expected = sx.solve(sx.psvm_primal(X, Y)).certificate.upper
    assert sx.solve(sx.psvm_primal(frame, labels)).certificate.upper == expected
    for build in BUILDERS:
        build(frame, labels)
    fitted = sx.PSVMClassifier().fit(frame, labels)
    assert list(fitted.feature_names_in_) == frame.columns
    assert fitted.score(frame, labels) > 0.5
    with pytest.raises(sx.DataError, match="LazyFrame, which holds no rows yet"):
        sx.psvm_primal(frame.lazy(), labels)


def test_tensors():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(X)
    problem = sx.psvm_primal(tensor, torch.tensor(Y))
    tensor[:] = 7.0
    np.testing.assert_array_equal(problem.formulation.space.data.X, X)
    with pytest.raises(sx.DataError, match="detach"):
        sx.psvm_primal(torch.tensor(X, requires_grad=True), Y)
