"""Products with a kernel matrix on the workers of a cluster."""

import numpy as np
import pytest
import scipy.sparse as sp

import svmcvx as sx
from svmcvx.kernels import columns
from svmcvx.kernels.columns import KernelColumns

distributed = pytest.importorskip("distributed")


@pytest.fixture
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


@pytest.mark.parametrize(
    "kernel", [sx.RBF(0.3), sx.Polynomial(degree=2, gamma=0.5, coef0=1.0), sx.Laplacian(0.2)]
)
@pytest.mark.parametrize("sparse", [False, True])
def test_workers_compute_the_same_product(client, monkeypatch, kernel, sparse):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    X = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)) if sparse else X
    whole = KernelColumns(kernel, X, X[:20])
    v = rng.standard_normal(20)
    here = whole.product(v)
    monkeypatch.setattr(columns, "CLUSTER", 1)
    tasks = []
    submit = client.submit
    monkeypatch.setattr(client, "submit", lambda *a, **k: tasks.append(a) or submit(*a, **k))
    there = whole.product(v)
    assert len(tasks) == 4
    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-300)


def test_certificates_and_scores_of_a_machine_use_the_cluster(client, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(80) > 0, "a", "b")
    here = sx.PSVMClassifier(kernel="rbf", C=2.0, tol=1e-8).fit(X, y)
    monkeypatch.setattr(columns, "CLUSTER", 1)
    there = sx.PSVMClassifier(kernel="rbf", C=2.0, tol=1e-8).fit(X, y)
    assert there.certificate_.is_certified(1e-8)
    assert there.certificate_.lower <= here.certificate_.upper
    assert here.certificate_.lower <= there.certificate_.upper
    np.testing.assert_allclose(there.decision_function(X), here.decision_function(X), atol=1e-6)


def test_a_cluster_that_fails_leaves_the_work_to_this_process(client, monkeypatch, caplog):
    X = np.random.default_rng(2).standard_normal((40, 3))
    whole = KernelColumns(sx.RBF(0.3), X, X)
    here = whole.product(np.ones(40))
    monkeypatch.setattr(columns, "CLUSTER", 1)

    def broken(*arguments, **keywords):
        raise OSError("the scheduler is gone")

    monkeypatch.setattr(client, "scatter", broken)
    np.testing.assert_allclose(whole.product(np.ones(40)).scores, here.scores, rtol=1e-12)
    assert "the scheduler is gone" in caplog.text
