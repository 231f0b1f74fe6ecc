"""Models of several classes: one score a class, or binary models that decide together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import check_choice, check_features
from svmcvx.display import html_fields, html_table, listed, number, quantity
from svmcvx.errors import DataError
from svmcvx.model.base import Model, frozen
from svmcvx.model.binary import BinaryModel, KernelModel, LinearModel
from svmcvx.model.packed import KernelMembers, LinearMembers, Members, packed

__all__ = ["MulticlassModel", "OneVsModel", "class_scores", "pair_votes"]

Floats: TypeAlias = NDArray[np.float64]

# Classes, or members, that HTML lists.
SHOWN = 20

_MEMBERS: dict[str, type[BinaryModel]] = {cls.__name__: cls for cls in (LinearModel, KernelModel)}


def _by_class(later: NDArray[Any], earlier: NDArray[Any]) -> Floats:
    """Return the sums over pairs k < l of what each gives to l (a column of `later`) and to k (one
    of `earlier`).
    """
    pairs = later.shape[1]
    c = (1 + math.isqrt(1 + 8 * pairs)) // 2
    sums = np.zeros((c, later.shape[0]))
    later, earlier = np.ascontiguousarray(later.T), np.ascontiguousarray(earlier.T)
    for row, (k, other) in enumerate(combinations(range(c), 2)):
        sums[other] += later[row]
        sums[k] += earlier[row]
    return sums.T


def pair_votes(scores: Floats) -> Floats:
    """Return the number of votes for each class, shape (m, c), from the scores of models for all
    pairs, shape (m, c(c−1)/2).
    """
    later = scores > 0
    return _by_class(later, ~later)


def class_scores(scores: Floats, scheme: str) -> Floats:
    """Return what :meth:`OneVsModel.decision_function` does, from the scores of the members."""
    if scheme == "ovr":
        return scores
    sums = _by_class(scores, -scores)
    return pair_votes(scores) + sums / (3.0 * (np.abs(sums) + 1.0))


@dataclass(frozen=True, eq=False)
class MulticlassModel(Model):
    """A linear score ``w_k'x + b_k`` for each class; the class with the largest is predicted.

    Attributes
    ----------
    coef : ndarray of shape (d, c)
        Column k is :math:`w_k`.
    intercept : ndarray of shape (c,)
        The biases.
    classes : ndarray of shape (c,)
    support : ndarray of int
        Rows of the training data with a non-zero multiplier.
    """

    coef: Floats
    intercept: Floats
    classes: NDArray[Any]
    support: NDArray[np.intp]

    def __post_init__(self) -> None:
        for name in ("coef", "intercept", "classes", "support"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def _described(self) -> dict[str, str]:
        return {"Input": quantity(self.coef.shape[0], "feature"), **super()._described()}

    def _html_tables(self) -> list[str]:
        columns = range(min(len(self.classes), SHOWN))
        rows = [
            [
                str(self.classes[k]),
                number(self.intercept[k]),
                number(float(np.linalg.norm(self.coef[:, k]))),
            ]
            for k in columns
        ]
        left = len(self.classes) - len(columns)
        more = [html_fields([("", f"{left} more")])] if left else []
        return [html_table(["class", "intercept", "‖w‖"], rows), *more]

    def decision_function(self, X: Any) -> Floats:
        """Return the scores ``X W + b``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)

        Returns
        -------
        ndarray of shape (m, c)
        """
        X = check_features(X, n_features=self.coef.shape[0])
        return np.asarray(X @ self.coef) + self.intercept

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the largest score; of equal scores the first."""
        labels: NDArray[Any] = self.classes[np.argmax(self.decision_function(X), axis=1)]
        return labels

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {"coef": self.coef, "intercept": self.intercept}

    @classmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        return cls(
            coef=arrays["coef"],
            intercept=arrays["intercept"],
            classes=arrays["classes"],
            support=arrays["support"],
        )


@dataclass(frozen=True, eq=False)
class OneVsModel(Model):
    r"""Binary models that decide among several classes together.

    One against one (``"ovo"``): a model for each pair k < l of classes, in lexicographic order,
    whose score :math:`f_{kl}` is positive for class l. Each model gives a vote; a tie is decided by
    the sum :math:`s_k` of a class's scores, and if these are equal too, by the order of the
    classes. One against the rest (``"ovr"``): a model for each class, whose score is positive for
    that class; the largest score decides, of equal ones the first.

    Attributes
    ----------
    scheme : "ovo" or "ovr"
    members : sequence of LinearModel or KernelModel
        Their ``support`` counts rows of all training data.
    classes : ndarray of shape (c,)
    support : ndarray of int
        Rows of the training data that any of the members rests on.
    """

    scheme: str
    members: Sequence[BinaryModel]
    classes: NDArray[Any]
    support: NDArray[np.intp] = field(init=False)

    def __post_init__(self) -> None:
        check_choice(self.scheme, "scheme", ("ovo", "ovr"))
        c = len(self.classes)
        expected = c * (c - 1) // 2 if self.scheme == "ovo" else c
        if c < 2 or len(self.members) != expected:
            raise DataError(
                f"members must hold {expected} models for {c} classes, got {len(self.members)}"
            )
        object.__setattr__(self, "classes", frozen(self.classes))
        if isinstance(self.members, (KernelMembers, LinearMembers)):
            union = self.members.support
        else:
            object.__setattr__(self, "members", tuple(self.members))
            union = np.unique(np.concatenate([member.support for member in self.members]))
        object.__setattr__(self, "support", frozen(union))

    @cached_property
    def _together(self) -> Members | None:
        """The members in arrays, where they can be."""
        return packed(self.members)

    def _described(self) -> dict[str, str]:
        kinds = dict.fromkeys(type(member).__name__ for member in self.members)
        scheme = "one against one" if self.scheme == "ovo" else "one against the rest"
        return {
            "Scheme": scheme,
            "Members": f"{len(self.members)} × {listed(kinds)}",
            **super()._described(),
        }

    def _html_tables(self) -> list[str]:
        labels = self.classes.tolist()
        sides = (
            combinations(labels, 2)
            if self.scheme == "ovo"
            else ((label, "rest") for label in labels)
        )
        rows = [
            [f"{one} / {other}", number(member.intercept), member.n_support]
            for (one, other), member in list(zip(sides, self.members, strict=True))[:SHOWN]
        ]
        left = len(self.members) - len(rows)
        more = [html_fields([("", f"{left} more")])] if left else []
        return [html_table(["classes", "intercept", "support"], rows), *more]

    def without_support(self) -> Self:
        """Return the models without the rows they rest on."""
        return replace(self, members=tuple(member.without_support() for member in self.members))

    def member_scores(self, X: Any) -> Floats:
        """Return the score of each row by each member, shape (m, c(c−1)/2) or (m, c).

        Members with the same kernel evaluate it once, between the rows and the support vectors of
        all of them.
        """
        X = check_features(X)
        if self._together is not None:
            return self._together.scores(X)
        return np.stack([member.decision_function(X) for member in self.members], axis=1)

    def decision_function(self, X: Any) -> Floats:
        r"""Return a score of each row for each class; the largest decides.

        One against one, it is the number of votes plus :math:`s_k/(3(|s_k|+1))`, which is less than
        a third of a vote and grows with :math:`s_k`, as in scikit-learn.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)

        Returns
        -------
        ndarray of shape (m, c)
        """
        return class_scores(self.member_scores(X), self.scheme)

    def votes(self, X: Any) -> Floats:
        """Return the number of votes of each row for each class, shape (m, c); of a model for each
        pair of classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
        """
        if self.scheme != "ovo":
            raise DataError("votes are those of pairs of classes; this model has one score a class")
        return pair_votes(self.member_scores(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the largest score; of equal scores the first."""
        labels: NDArray[Any] = self.classes[np.argmax(self.decision_function(X), axis=1)]
        return labels

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        described: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for index, member in enumerate(self.members):
            scalars, own = member._state()
            described.append(
                {"type": type(member).__name__, "scalars": scalars, "arrays": sorted(own)}
            )
            own = own | {"support": member.support}
            arrays |= {f"member{index}_{name}": array for name, array in own.items()}
        return {"scheme": self.scheme, "members": described}, arrays

    @classmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        classes, scheme = arrays["classes"], scalars["scheme"]
        # What the members decide between follows from the scheme.
        sides = [*combinations(classes, 2)] if scheme == "ovo" else [(0, 1)] * len(classes)
        members = []
        for index, (member, side) in enumerate(zip(scalars["members"], sides, strict=True)):
            own = {name: arrays[f"member{index}_{name}"] for name in [*member["arrays"], "support"]}
            own["classes"] = np.array(side, dtype=classes.dtype if scheme == "ovo" else np.intp)
            members.append(_MEMBERS[member["type"]]._from_state(member["scalars"], own))
        return cls(scheme=scheme, members=tuple(members), classes=classes)
