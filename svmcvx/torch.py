r"""ISM3 for PyTorch (extra ``torch``): the loss of M3SVM over a last linear layer.

.. math:: \sum_i \ell(s_i, y_i) + \lambda\sum_{k<l}\|w_k-w_l\|^p + \varepsilon(\|W\|_F^2 + \|b\|^2)

with the scores :math:`s_i` of the layer, its weights :math:`w_k` (one *row* a class, as in PyTorch)
and its bias b. It can replace ``torch.nn.CrossEntropyLoss``; the regulariser enlarges the margins
between the classes, which are :math:`2/\|w_k-w_l\|` in the features of the last layer.

**Source.** [NieHaoWang], problems (5) and (14), § A.3; the statement is
:mod:`svmcvx.formulations.multiclass.machines`.
"""

from __future__ import annotations

from svmcvx.data import check_choice, check_number
from svmcvx.errors import DataError, missing_extra

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ImportError:
    raise missing_extra("torch", "torch") from None

__all__ = ["ISM3Loss"]

LOSSES = ("softmax", "logistic", "hinge", "smoothed")
REDUCTIONS = ("mean", "sum")


class ISM3Loss(nn.Module):
    """The loss of M3SVM as a module."""

    def __init__(
        self,
        lam: float,
        p: float = 4.0,
        *,
        loss: str = "softmax",
        eps: float = 0.0,
        delta: float = 1e-2,
        norm: int = 2,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.lam = check_number(lam, "lam", "[0, inf)")
        self.p = check_number(p, "p")
        self.loss = check_choice(loss, "loss", LOSSES)
        self.eps = check_number(eps, "eps", "[0, inf)")
        self.delta = check_number(delta, "delta")
        if norm not in (1, 2):
            raise DataError(
                f"norm must be 2 (Euclidean) or 1 (sums of absolute values), got {norm!r}"
            )
        self.norm = int(norm)
        self.reduction = check_choice(reduction, "reduction", REDUCTIONS)

    def extra_repr(self) -> str:
        """Return the parameters for ``repr``."""
        smoothing = f", delta={self.delta:g}" if self.loss == "smoothed" else ""
        return (
            f"lam={self.lam:g}, p={self.p:g}, loss={self.loss!r}, eps={self.eps:g}{smoothing},"
            f" norm={self.norm}, reduction={self.reduction!r}"
        )

    def forward(
        self, scores: Tensor, targets: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch with the regulariser of the layer."""
        _check_shapes(scores, targets, weight, bias)
        return self._losses(scores, targets) + self.regulariser(weight, bias)

    def regulariser(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        r"""Return :math:`\lambda\sum_{k<l}\|w_k-w_l\|^p + \varepsilon(\|W\|_F^2+\|b\|^2)`."""
        lengths = functional.pdist(weight, p=float(self.norm))
        value = self.lam * lengths.pow(self.p).sum()
        if self.eps > 0:
            value = value + self.eps * weight.square().sum()
            if bias is not None:
                value = value + self.eps * bias.square().sum()
        return value

    def _losses(self, scores: Tensor, targets: Tensor) -> Tensor:
        if self.loss == "softmax":
            return functional.cross_entropy(scores, targets, reduction=self.reduction)
        own = scores.gather(1, targets[:, None])
        # The columns of the other classes, in order.
        classes = torch.arange(scores.shape[1] - 1, device=scores.device)
        others = scores.gather(1, classes + (classes >= targets[:, None]).long())
        total = self._margin_losses(own - others).sum()
        return total / scores.shape[0] if self.reduction == "mean" else total

    def _margin_losses(self, f: Tensor) -> Tensor:
        if self.loss == "logistic":
            return functional.softplus(-f)
        short = 1.0 - f
        if self.loss == "hinge":
            return functional.relu(short)
        root = torch.sqrt(short.square() + self.delta**2)
        # For short < 0 the sum (short + root)/2 cancels; δ²/2 over (|short| + root) is the same
        # number without cancellation.
        size = short.abs() + root
        return torch.where(short > 0, 0.5 * size, 0.5 * self.delta**2 / size)


def _check_shapes(scores: Tensor, targets: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if scores.dim() != 2 or scores.shape[1] < 2:
        raise DataError(
            "scores must have one column a class, at least two: shape (n, c), got"
            f" {tuple(scores.shape)}"
        )
    n, c = scores.shape
    if targets.shape != (n,) or targets.is_floating_point():
        raise DataError(
            f"targets must hold one class index a row: integers of shape ({n},), got"
            f" {tuple(targets.shape)} {targets.dtype}"
        )
    if weight.dim() != 2 or weight.shape[0] != c:
        raise DataError(
            f"weight must have one row a class, as layer.weight: shape ({c}, d), got"
            f" {tuple(weight.shape)}"
        )
    if bias is not None and bias.shape != (c,):
        raise DataError(f"bias must hold one number a class: shape ({c},), got {tuple(bias.shape)}")
