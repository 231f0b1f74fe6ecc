"""The loss for PyTorch, by ``make torch``, which has PyTorch in a folder of its own."""

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.formulations.multiclass.statement import lengths, pair_differences

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make torch runs these tests")

from svmcvx.torch import ISM3Loss  # noqa: E402

LOSSES = ("softmax", "logistic", "hinge", "smoothed")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def layer(seed=0, n=12, d=3, c=4):
    rng = np.random.default_rng(seed)
    X, W, b = rng.standard_normal((n, d)), rng.standard_normal((d, c)), rng.standard_normal(c)
    return X, W, b, rng.integers(c, size=n)


@pytest.mark.parametrize("loss", LOSSES)
def test_sum_is_the_objective_of_m3svm_and_has_its_gradient(loss):
    X, W, b, y = layer()
    y[:4] = range(4)
    model = sx.MulticlassModel(W, b, np.arange(4), np.arange(12))
    extra = {"delta": 0.2} if loss == "smoothed" else {}
    given = [torch.tensor(part, requires_grad=True) for part in (X, np.ascontiguousarray(W.T), b)]
    for norm, p in ((1, 1.0), (1, 1.5), (1, 4.0), (2, 1.0), (2, 1.5), (2, 2.0), (2, 4.0)):
        problem = sx.m3svm(X, y, lam=0.3, p=p, eps=0.05, loss=loss, norm=norm, **extra)
        criterion = ISM3Loss(0.3, p, loss=loss, eps=0.05, norm=norm, reduction="sum", **extra)

        def value(features, weight, bias, criterion=criterion):
            return criterion(features @ weight.T + bias, torch.tensor(y), weight, bias)

        optimum = problem.formulation.evaluate(model).value
        assert float(value(*given)) == pytest.approx(optimum, rel=1e-12)
        assert torch.autograd.gradcheck(value, given)


def test_mean_averages_the_losses_alone():
    X, W, b, y = (torch.tensor(part) for part in layer())
    scores, size = X @ W + b, lengths(W.numpy() @ pair_differences(4), 2)
    for loss in LOSSES:
        total, mean, alone = (
            float(ISM3Loss(lam, loss=loss, reduction=reduction)(scores, y, W.T))
            for lam, reduction in ((0.4, "sum"), (0.4, "mean"), (0.0, "sum"))
        )
        assert total - alone == pytest.approx(0.4 * np.sum(size**4))
        assert mean == pytest.approx(alone / 12 + total - alone)
    plain = ISM3Loss(0.0)(scores, y, W.T)
    torch.testing.assert_close(plain, torch.nn.functional.cross_entropy(scores, y))


def test_equal_and_nearly_equal_classes_keep_their_digits():
    for p in (1.0, 1.2, 2.0, 4.0):
        for norm in (1, 2):
            weight = torch.ones((3, 5), dtype=torch.float64, requires_grad=True)
            ISM3Loss(1.0, p, norm=norm).regulariser(weight).backward()
            assert torch.equal(weight.grad, torch.zeros_like(weight))
    weight = torch.full((2, 3), 1e6, dtype=torch.float64)
    weight[1, 0] += 1e-3
    step = float(weight[1, 0] - weight[0, 0])
    assert float(ISM3Loss(1.0, 1.0).regulariser(weight)) == pytest.approx(step, rel=1e-14)


@pytest.mark.parametrize("loss", LOSSES)
def test_extreme_scores_give_numbers(loss):
    weight = torch.zeros((3, 1), dtype=torch.float64)
    for scale in (1e-8, 1e8):
        scores = torch.tensor([[1.0, -1.0, 0.5], [-2.0, 3.0, 0.0]], dtype=torch.float64) * scale
        scores.requires_grad_()
        value = ISM3Loss(0.1, loss=loss)(scores, torch.tensor([0, 2]), weight)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(scores.grad).all()
    scores = torch.tensor([[1e9, 0.0]], dtype=torch.float64)
    if loss == "smoothed":
        value = ISM3Loss(0.0, loss=loss, delta=0.1)(scores, torch.tensor([0]), weight[:2])
        assert float(value) == pytest.approx(0.1**2 / 4 / 1e9, rel=1e-8)


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


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"p": 0.5}, "p < 1 is not convex"),
        ({"lam": -1.0}, "lam must be a finite number"),
        ({"loss": "squared"}, "loss must be one of 'softmax', 'logistic', 'hinge', 'smoothed'"),
        ({"norm": 3}, "norm must be 2"),
        ({"reduction": "none"}, "reduction must be one of"),
    ],
)
def test_arguments_are_checked(settings, words):
    with pytest.raises(sx.DataError, match=words):
        ISM3Loss(**{"lam": 0.1, **settings})


def test_shapes_are_checked_and_the_module_describes_itself():
    criterion = sx.torch.ISM3Loss(0.1)
    scores, targets, weight = torch.zeros(4, 3), torch.zeros(4, dtype=torch.long), torch.zeros(3, 2)
    for arguments, words in (
        ((scores[:, :1], targets, weight), "one column a class"),
        ((scores, targets.double(), weight), "one class index a row"),
        ((scores, targets, weight.T), r"one row a class, as layer\.weight"),
        ((scores, targets, weight, torch.zeros(2)), "bias must hold one number a class"),
    ):
        with pytest.raises(sx.DataError, match=words):
            criterion(*arguments)
    assert repr(ISM3Loss(1e-3, loss="smoothed")) == (
        "ISM3Loss(lam=0.001, p=4, loss='smoothed', eps=0, delta=0.01, norm=2, reduction='mean')"
    )
    assert list(criterion.parameters()) == []
