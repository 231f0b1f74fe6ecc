"""The loss for PyTorch; all but one test are skipped where PyTorch is not installed, as on the
project's own runs.
"""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

import svmcvx as sx
from svmcvx.formulations.multiclass.m3svm import objective_value
from svmcvx.formulations.multiclass.pairwise import lengths, pair_differences

try:
    import torch
except ImportError:
    torch = None
else:
    from svmcvx.torch import ISM3Loss

needs_torch = pytest.mark.skipif(
    torch is None, reason="PyTorch is not installed; pip install 'svmcvx[torch]'"
)

LOSSES = ("softmax", "logistic", "hinge", "smoothed")


@pytest.fixture(autouse=True)
def one_thread():
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_missing_extra_is_named():
    code = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ImportError(name)
sys.meta_path.insert(0, Without())
import svmcvx as sx
try:
    sx.torch
except sx.SolverUnavailable as error:
    print(error)
"""
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "pip install 'svmcvx[torch]'" in printed


def layer(seed=0, n=12, d=3, c=4):
    rng = np.random.default_rng(seed)
    X, W, b = rng.standard_normal((n, d)), rng.standard_normal((d, c)), rng.standard_normal(c)
    return X, W, b, rng.integers(c, size=n)


@needs_torch
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0])
def test_sum_is_the_objective_of_m3svm(loss, norm, p):
    X, W, b, y = layer()
    y[:4] = range(4)
    lam, eps, delta = 0.3, 0.05, 0.2
    extra = {"delta": delta} if loss == "smoothed" else {}
    statement = sx.m3svm(X, y, lam=lam, p=p, eps=eps, loss=loss, norm=norm, **extra).formulation
    model = sx.MulticlassModel(W, b, np.arange(4), np.arange(12))
    criterion = ISM3Loss(lam, p, loss=loss, eps=eps, delta=delta, norm=norm, reduction="sum")
    weight, bias = torch.tensor(W.T), torch.tensor(b)
    scores = torch.tensor(X) @ weight.T + bias
    assert float(criterion(scores, torch.tensor(y), weight, bias)) == pytest.approx(
        statement.evaluate(model).value, rel=1e-12
    )


@needs_torch
def test_regulariser_is_that_of_the_numpy_objective():
    _, W, b, _ = layer(1)
    size = lengths(W @ pair_differences(4), 2)
    expected = objective_value(0.0, size, (W**2).sum() + (b**2).sum(), lam=0.7, p=3.0, eps=0.1)
    found = ISM3Loss(0.7, 3.0, eps=0.1).regulariser(torch.tensor(W.T), torch.tensor(b))
    assert float(found) == pytest.approx(expected)


@needs_torch
def test_mean_averages_the_losses_alone():
    X, W, b, y = (torch.tensor(part) for part in layer())
    scores = X @ W + b
    for loss in LOSSES:
        total, mean, alone = (
            float(ISM3Loss(lam, loss=loss, reduction=reduction)(scores, y, W.T))
            for lam, reduction in ((0.4, "sum"), (0.4, "mean"), (0.0, "sum"))
        )
        assert mean == pytest.approx(alone / 12 + total - alone)


@needs_torch
def test_without_regulariser_softmax_is_cross_entropy():
    X, W, b, y = (torch.tensor(part) for part in layer())
    scores = X @ W + b
    torch.testing.assert_close(
        ISM3Loss(0.0)(scores, y, W.T), torch.nn.functional.cross_entropy(scores, y)
    )


@needs_torch
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("p", [1.0, 1.5, 4.0])
@pytest.mark.parametrize("norm", [1, 2])
def test_gradients(loss, p, norm):
    X, W, b, y = layer(2)
    features = torch.tensor(X, requires_grad=True)
    weight = torch.tensor(np.ascontiguousarray(W.T), requires_grad=True)
    bias = torch.tensor(b, requires_grad=True)
    criterion = ISM3Loss(0.2, p, loss=loss, eps=0.01, delta=0.3, norm=norm)

    def value(x, w, c):
        return criterion(x @ w.T + c, torch.tensor(y), w, c)

    assert torch.autograd.gradcheck(value, (features, weight, bias))


@needs_torch
@pytest.mark.parametrize("p", [1.0, 1.2, 2.0, 4.0])
@pytest.mark.parametrize("norm", [1, 2])
def test_equal_classes_have_gradient_zero(p, norm):
    weight = torch.ones((3, 5), dtype=torch.float64, requires_grad=True)
    ISM3Loss(1.0, p, norm=norm).regulariser(weight).backward()
    assert torch.equal(weight.grad, torch.zeros_like(weight))


@needs_torch
def test_nearly_equal_classes_keep_their_digits():
    weight = torch.full((2, 3), 1e6, dtype=torch.float64)
    weight[1, 0] += 1e-3
    step = float(weight[1, 0] - weight[0, 0])
    assert float(ISM3Loss(1.0, 1.0).regulariser(weight)) == pytest.approx(step, rel=1e-14)


@needs_torch
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_extreme_scores_give_numbers(loss, scale):
    scores = torch.tensor([[1.0, -1.0, 0.5], [-2.0, 3.0, 0.0]], dtype=torch.float64) * scale
    scores.requires_grad_()
    weight = torch.zeros((3, 1), dtype=torch.float64)
    value = ISM3Loss(0.1, loss=loss)(scores, torch.tensor([0, 2]), weight)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(scores.grad).all()


@needs_torch
def test_smoothed_hinge_keeps_its_digits_far_from_the_margin():
    scores = torch.tensor([[1e9, 0.0]], dtype=torch.float64)
    weight = torch.zeros((2, 1), dtype=torch.float64)
    value = float(ISM3Loss(0.0, loss="smoothed", delta=0.1)(scores, torch.tensor([0]), weight))
    assert value == pytest.approx(0.1**2 / 4 / 1e9, rel=1e-8)


@needs_torch
def test_gradient_descent_reaches_the_certified_optimum():
    rng = np.random.default_rng(3)
    y = np.arange(30) % 3
    X = rng.standard_normal((30, 2)) + 1.5 * np.array([[0, 1], [1, -1], [-1, -1]])[y]
    certificate = sx.solve(sx.m3svm(X, y, lam=0.1, p=4, eps=1e-2, loss="softmax")).certificate
    last = torch.nn.Linear(2, 3, dtype=torch.float64)
    criterion = ISM3Loss(0.1, 4, eps=1e-2, reduction="sum")
    features, targets = torch.tensor(X), torch.tensor(y)
    optimiser = torch.optim.LBFGS(
        last.parameters(), max_iter=300, tolerance_grad=1e-10, line_search_fn="strong_wolfe"
    )

    def closure():
        optimiser.zero_grad()
        value = criterion(last(features), targets, last.weight, last.bias)
        value.backward()
        return value

    optimiser.step(closure)
    assert certificate.lower - 1e-9 <= float(closure().detach()) <= certificate.upper * (1 + 1e-6)


def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16, y[order]
    return X[:1200], y[:1200], X[1200:], y[1200:]


def train(criterion, X, y, epochs=20):
    """A network with one hidden layer; what it makes of a batch, its last layer, and the loss after
    each epoch.
    """
    torch.manual_seed(0)
    body = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
    last = torch.nn.Linear(64, 10)
    optimiser = torch.optim.Adam([*body.parameters(), *last.parameters()], lr=5e-3)
    features, targets = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    values = []
    for _ in range(epochs):
        for batch in torch.randperm(len(y)).split(64):
            optimiser.zero_grad()
            value = criterion(last(body(features[batch])), targets[batch], last.weight, last.bias)
            value.backward()
            optimiser.step()
        with torch.no_grad():
            values.append(float(criterion(last(body(features)), targets, last.weight, last.bias)))
    return torch.nn.Sequential(body, last), last, values


def smallest_margin(last):
    c = last.weight.shape[0]
    model = sx.MulticlassModel(
        last.weight.detach().numpy().T, np.zeros(c), np.arange(c), np.arange(1)
    )
    return np.nanmin(sx.theory.pairwise_margins(model))


@needs_torch
@pytest.mark.parametrize("loss", ["softmax", "hinge"])
def test_a_small_network_learns_the_digits(loss):
    X, y, X_test, y_test = digits()
    network, last, values = train(ISM3Loss(1e-3, 4, loss=loss), X, y)
    with torch.no_grad():
        predicted = network(torch.tensor(X_test, dtype=torch.float32)).argmax(dim=1).numpy()
    assert values[-1] < 0.5 * values[0]
    # A linear machine has 0.97 on splits like this one: the loss must not cost what the network
    # learns.
    assert np.mean(predicted == y_test) > 0.95
    # What the regulariser is for: the two closest classes are further apart than without it.
    _, plain, _ = train(ISM3Loss(0.0, loss=loss), X, y)
    assert smallest_margin(last) > 1.2 * smallest_margin(plain)


@needs_torch
def test_arguments_are_checked():
    with pytest.raises(sx.DataError, match="p < 1 is not convex"):
        ISM3Loss(0.1, 0.5)
    with pytest.raises(sx.DataError, match="lam must be a finite number"):
        ISM3Loss(-1.0)
    with pytest.raises(
        sx.DataError, match="loss must be one of 'softmax', 'logistic', 'hinge', 'smoothed'"
    ):
        ISM3Loss(0.1, loss="squared")
    with pytest.raises(sx.DataError, match="norm must be 2"):
        ISM3Loss(0.1, norm=3)
    with pytest.raises(sx.DataError, match="reduction must be one of"):
        ISM3Loss(0.1, reduction="none")


@needs_torch
def test_shapes_are_checked():
    criterion = ISM3Loss(0.1)
    scores, targets, weight = torch.zeros(4, 3), torch.zeros(4, dtype=torch.long), torch.zeros(3, 2)
    with pytest.raises(sx.DataError, match="one column a class"):
        criterion(scores[:, :1], targets, weight)
    with pytest.raises(sx.DataError, match="one class index a row"):
        criterion(scores, targets.double(), weight)
    with pytest.raises(sx.DataError, match=r"one row a class, as layer\.weight"):
        criterion(scores, targets, weight.T)
    with pytest.raises(sx.DataError, match="bias must hold one number a class"):
        criterion(scores, targets, weight, torch.zeros(2))


@needs_torch
def test_module_describes_itself_and_has_no_parameters():
    criterion = ISM3Loss(1e-3, loss="smoothed")
    assert repr(criterion) == (
        "ISM3Loss(lam=0.001, p=4, loss='smoothed', eps=0, delta=0.01, norm=2, reduction='mean')"
    )
    assert list(criterion.parameters()) == []
    assert sx.torch.ISM3Loss is ISM3Loss
