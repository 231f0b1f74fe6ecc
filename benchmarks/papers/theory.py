r"""Quantities of the papers' theorems, beside those of ``svmcvx.theory``.

**A fixed margin** [Sun, Theorem 1, eq. (11)]. With probability at least 1 − δ, for all functions of
a class with Rademacher complexity :math:`\mathfrak R_m` and *one* ρ chosen before the sample,
the expected margin loss with p = 1 is at most its mean on the sample plus
:math:`\tfrac2\rho\mathfrak R_m + \sqrt{\log(2/\delta)/(2m)}`.

**Complexity** [Sun, Theorem 2, Claim 1]. The empirical Rademacher complexity of :math:`x \mapsto
\langle w, \varphi(x)\rangle` with :math:`\|w\| \le \Lambda` is at most
:math:`\tfrac{\Lambda}{m}\sqrt{\operatorname{tr}K} \le \sqrt{r^2\Lambda^2/m}`, :math:`r =
\max_i\|\varphi(x_i)\|`. *Erratum*: Claim 1 has a bias b, and its proof keeps b fixed while the
signs vary. With b in the class the supremum is infinite; :math:`|b| \le B` adds :math:`B/\sqrt m`.

**Pairs of classes** [NieHaoWang, Theorem 6]. The guaranteed risk of [Guermeur] grows with
:math:`\max_i(\sum_{k<l}|(w_k-w_l)'x_i|^p)^{1/p} \le \Lambda(\sum_{k<l}\|w_k-w_l\|^p)^{1/p}`,
:math:`\Lambda = \max\|x\|`; this is no probability of an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from svmcvx.theory import margin_loss


def fixed_margin_bound(u: Any, complexity: float, *, rho: float, delta: float) -> float:
    """Bound the expected margin loss, p = 1, from the margins of a sample and the complexity."""
    confidence = math.sqrt(math.log(2.0 / delta) / (2 * len(u)))
    return float(margin_loss(u, p=1.0, rho=rho).mean()) + 2.0 / rho * complexity + confidence


class RademacherBound(NamedTuple):
    """rΛ/√m, the sharper Λ√(tr K)/m, and what a bias adds, B/√m."""

    theorem: float
    trace: float
    bias: float


def rademacher_bound(K: Any, *, norm: float, bias: float = 0.0) -> RademacherBound:
    """Bound the complexity of linear functions of bounded norm and bias, from the Gram matrix."""
    diagonal = np.diag(K)
    m = diagonal.size
    largest, total = math.sqrt(diagonal.max()), math.sqrt(diagonal.sum())
    return RademacherBound(largest * norm / math.sqrt(m), total * norm / m, bias / math.sqrt(m))


def rademacher_complexity(K: Any, signs: Any, *, norm: float, bias: float = 0.0) -> float:
    """Return the mean over sign vectors, one per column, of the supremum that the bound is
    about.
    """
    squares = np.maximum((signs * (K @ signs)).sum(axis=0), 0.0)
    suprema = norm * np.sqrt(squares) + bias * np.abs(signs.sum(axis=0))
    return float(suprema.mean()) / K.shape[0]


def guaranteed_risk(W: Any, X: Any, *, p: float) -> tuple[float, float]:
    """Return the norm of the differences of scores on data, and its bound by Theorem 6."""
    first, second = np.triu_indices(W.shape[1], 1)
    V = W[:, first] - W[:, second]
    sample = np.linalg.norm(X @ V, ord=p, axis=1).max()
    pairs = np.linalg.norm(np.linalg.norm(V, axis=0), ord=p)
    return float(sample), float(np.linalg.norm(X, axis=1).max() * pairs)


def left_out_errors(
    fit: Callable[[Any, Any], Any], X: Any, y: Any, rows: Iterable[int] | None = None
) -> list[int]:
    """Return the rows, of those given, that are misclassified by the machine trained without them;
    the only one of its class always is.
    """
    wrong = []
    for i in range(len(y)) if rows is None else rows:
        others = np.arange(len(y)) != i
        if (y[others] == y[i]).any():
            fitted = fit(X[others], y[others])
            if getattr(fitted, "model", fitted).predict(X[[i]])[0] == y[i]:
                continue
        wrong.append(int(i))
    return wrong
