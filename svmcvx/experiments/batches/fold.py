"""The settings of a batch fitted and scored on one fold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from svmcvx.data import check_features
from svmcvx.errors import SvmcvxError
from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.estimators.pairs import parts
from svmcvx.estimators.request import Request
from svmcvx.experiments.batches.machines import (
    NUMBERS,
    Machine,
    Numbers,
    machine_of,
    numbers_of,
    solve,
)
from svmcvx.experiments.search_paths import (
    Path,
    PathOnFold,
    PathState,
    Row,
    final_prefix,
    with_settings,
)
from svmcvx.experiments.store import Store, fingerprint
from svmcvx.fast.grids.order import serpentine
from svmcvx.fast.grids.pairs import PairsBatch
from svmcvx.fast.grids.rows import Rows
from svmcvx.kernels.gram_cache import GramCache
from svmcvx.model.several import class_scores
from svmcvx.system import clock
from svmcvx.system.deadline import current, time_limited, until

__all__ = ["UNCERTIFIED", "BatchOnFold", "batches_of"]

Floats: TypeAlias = NDArray[np.float64]
Settings: TypeAlias = Mapping[str, Any]
# Scores of shape (k, m, problems), which settings are solved, and their support vectors, if these
# are counted.
Found: TypeAlias = tuple[Floats, NDArray[np.bool_], Sequence[int | None]]

# The status of a fit that was solved in a batch.
UNCERTIFIED = "uncertified"


def batches_of(estimator: Any, candidates: Sequence[Settings]) -> list[Path]:
    """Part the settings of a grid into batches, of settings that differ in numbers of the losses
    only.
    """
    prefix = final_prefix(estimator)
    numbers = {prefix + name for name in NUMBERS}
    groups: dict[str, list[int]] = {}
    for place, settings in enumerate(candidates):
        others = sorted(
            (name, repr(value)) for name, value in settings.items() if name not in numbers
        )
        groups.setdefault(repr((sorted(settings), others)), []).append(place)
    return [
        Path(None, tuple(candidates[k] for k in group), tuple(group)) for group in groups.values()
    ]


@dataclass(frozen=True)
class BatchOnFold(PathOnFold):
    """A batch on one fold: a piece of work that a process does by itself. Its rows have no
    certificates.
    """

    def keys_of(self, parts: tuple[Any, ...]) -> tuple[str, ...]:
        """Return a key for each setting: none of those of certified fits."""
        prefix = final_prefix(self.estimator)
        numbers = {prefix + name for name in NUMBERS}
        others = {
            name: value for name, value in self.path.settings[0].items() if name not in numbers
        }
        common = fingerprint("batch", with_settings(clone(self.estimator), others), *parts)
        return tuple(
            hashlib.blake2b(
                repr(
                    (
                        common,
                        [
                            (name, float(settings[name]))
                            for name in sorted(numbers & settings.keys())
                        ],
                    )
                ).encode(),
                digest_size=16,
            ).hexdigest()
            for settings in self.path.settings
        )

    def rows(
        self, X: Any, y: Any, sample_weight: Any = None, cache: GramCache | None = None
    ) -> Iterator[tuple[int, Row]]:
        """Yield the place and the row of each of the settings, a slice at a time; slices are stored
        whole.
        """
        state = _BatchState(self, X, y, sample_weight, GramCache() if cache is None else cache)
        with nullcontext() if self.store is None else Store(self.store) as store:
            for places in state.slices():
                with until(self.until) as deadline:
                    found = None if deadline.passed() else state.solved(places)
                    if found is None or deadline.passed():
                        return
                if store is not None:
                    store.add_all({self.keys[k]: row for k, row in found.items()}, "select")
                yield from found.items()


class _Scored(ClassifierMixin, BaseEstimator):
    """What a scorer is shown in place of a fitted estimator: its answers for the rows of the
    validation part.
    """

    def __init__(self, classes: NDArray[Any], scores: Floats, codes: NDArray[np.intp]) -> None:
        self.classes_, self.scores, self.codes = classes, scores, codes

    def decision_function(self, X: Any) -> Floats:
        """Return the scores."""
        return self.scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the labels."""
        return np.asarray(self.classes_[self.codes])


class _BatchState(PathState):
    """State of a batch: split data, fitted transformers, and the settings that it solves."""

    def __init__(
        self, work: PathOnFold, X: Any, y: Any, sample_weight: Any, cache: GramCache
    ) -> None:
        super().__init__(work, X, y, sample_weight, cache)
        self.machine: Machine | None = None
        self.numbers: dict[int, Numbers] = {}
        self.why: dict[int, str] = {}
        self._problems: list[Rows] | None = None
        try:
            self._read()
        except (SvmcvxError, ValueError, TypeError) as error:
            # The certified fit fails with the same message, or does not.
            self.why = dict.fromkeys(range(len(work.path.settings)), str(error))
            self.numbers = {}

    def _read(self) -> None:
        """Ask the estimator for its problem at each setting."""
        last = self._last()
        X_train, X_test = self._transform()
        self.training = last._training_data(X_train, self.y_train, self.weight)
        self.tested = check_features(X_test)
        data = self.training
        if data.weighted_classes().size < data.labels.classes.size or (
            data.sample_weight is not None and not data.sample_weight.any()
        ):
            raise ValueError("a class has no weight")
        last._check_several()
        counts = np.bincount(data.labels.codes)
        self.data = data.weighted(last._weights_of_classes(data.labels.classes, counts))
        for k, settings in enumerate(self.work.path.settings):
            try:
                request = self._request_of(last, settings)
                # The settings of a batch have all in common but their numbers.
                self.machine = self.machine or machine_of(request, self.data)
                self.numbers[k] = numbers_of(self.machine, request)
            except SvmcvxError as error:
                self.why[k] = str(error)

    def _last(self) -> BinaryClassifier:
        last: BinaryClassifier = (
            self.estimator.steps[-1][1] if final_prefix(self.estimator) else self.estimator
        )
        return last

    def _request_of(self, last: BinaryClassifier, settings: Settings) -> Request:
        for name, value in settings.items():
            short = name.rpartition("__")[2]
            if short in NUMBERS:
                setattr(last, short, value)
        assert self.training is not None  # noqa: S101 - set before
        return last._request(self.training, None)

    def slices(self) -> list[list[int]]:
        """Return the places of settings that are solved together, each in its order; first those
        that are fitted by themselves.
        """
        places = list(self.numbers)
        own = [[k] for k in self.why]
        return own + [
            [places[i] for i in one] for one in serpentine([self.numbers[k] for k in places])
        ]

    def solved(self, places: Sequence[int]) -> dict[int, Row] | None:
        """Return the rows of a slice; None if the time ran out."""
        if places[0] in self.why:
            return {places[0]: self._certified(places[0], self.why[places[0]])}
        assert self.machine is not None  # noqa: S101 - there are numbers
        began = clock.now()
        numbers = [self.numbers[k] for k in places]
        limit, tol = self._last().time_limit, self._last().tol
        with time_limited(None if limit is None else limit * len(places)):
            together = self._together
            found = (
                self._one_by_one(numbers)
                if together is None
                else together.solve([C for (C,) in numbers], tol)
            )
        if found is None:
            if current().passed():
                return None
            # The estimator's own limit has passed: single fits observe it one by one.
            return {
                k: self._certified(k, "the time limit of the fits passed in the batch")
                for k in places
            }
        scores, solved, supports = found
        codes = self._decided(scores)
        hits = self._hits(codes) if self.work.scorer is None else None
        seconds = (clock.now() - began) / len(places)
        rows_found: dict[int, Row] = {}
        for i, k in enumerate(places):
            if not solved[i]:
                rows_found[k] = self._certified(k, "the batch did not reach tol")
                continue
            row = self.empty_row() | {
                "solver": "fast.grids",
                "status": UNCERTIFIED,
                "batched": True,
            }
            row["n_support"], row["seconds"] = supports[i], seconds
            if hits is not None:
                row["score"] = float(hits[i])
            else:
                fitted = _Scored(self.data.labels.classes, self._scorer_input(scores[i]), codes[i])
                row["score"] = self._scored(fitted, self._transform()[1])
            rows_found[k] = row
        return rows_found

    @cached_property
    def _together(self) -> PairsBatch | None:
        """The binary problems of several classes, where one loop solves them all."""
        X, labels, weight = self.data
        machine, tested = self.machine, self.tested
        if machine is None or tested is None or labels.classes.size == 2:
            return None
        if (machine.loss, machine.intercept) != ("hinge", "free"):
            return None
        scheme = self._last().multiclass
        return PairsBatch.of(
            X, labels, weight, tested, scheme=scheme, kernel=machine.kernel, cache=self.cache
        )

    def _one_by_one(self, numbers: list[Numbers]) -> Found | None:
        """Solve one binary problem after the other; None if the time ran out."""
        assert self.machine is not None  # noqa: S101 - there are numbers
        found = []
        for rows in self._rows():
            answer = solve(self.machine, numbers, rows)
            if answer is None:
                return None
            found.append(answer)
        gaps = np.max([answer.gaps for answer in found], axis=0)
        scores = np.stack([answer.scores for answer in found], axis=2)
        return (
            scores,
            gaps <= self._last().tol,
            self._supports([answer.supports for answer in found]),
        )

    def _certified(self, place: int, why: str) -> Row:
        """Return the row of a single fit with a certificate."""
        self.solution = None
        row = super().row(self.work.path.settings[place])
        return row | {"note": row["note"] or f"certified: {why}"}

    def _rows(self) -> list[Rows]:
        """Return the binary problems, which all slices share."""
        if self._problems is None:
            assert self.machine is not None  # noqa: S101 - asked before
            assert self.tested is not None  # noqa: S101 - set before
            X, labels, weight = self.data
            weight = np.ones(len(labels)) if weight is None else weight
            several = labels.classes.size > 2
            each = (
                [(part.rows, part.labels.codes) for part in parts(labels, self._last().multiclass)]
                if several
                else []
            )
            self._problems = []
            for rows, codes in each or [(np.arange(len(labels)), labels.codes)]:
                kept = weight[rows] > 0
                rows, codes = rows[kept], codes[kept]
                self._problems.append(
                    Rows(
                        X=X if rows.size == len(labels) else np.ascontiguousarray(X[rows]),
                        y=np.where(codes == 1, 1.0, -1.0),
                        weight=weight[rows],
                        T=self.tested,
                        kernel=self.machine.kernel,
                        intercept=self.machine.intercept,
                        cache=self.cache,
                    )
                )
        return self._problems

    def _supports(self, each: list[NDArray[np.intp]]) -> list[int | None]:
        """Return the numbers of support vectors; of several machines their union is not counted."""
        return [int(count) for count in each[0]] if len(each) == 1 else [None] * each[0].size

    def _decided(self, scores: Floats) -> NDArray[np.intp]:
        """Return the positions of the predicted classes, shape (k, m)."""
        k, m, members = scores.shape
        if members == 1:
            return (scores[:, :, 0] > 0).astype(np.intp)
        last = self._last()
        return last._decided(scores.reshape(k * m, members), last.multiclass).reshape(k, m)

    def _scorer_input(self, scores: Floats) -> Floats:
        """Return the scores of one setting as a scorer takes them."""
        last = self._last()
        if scores.shape[1] == 1:
            return scores[:, 0]
        in_pairs = last.multiclass == "ovo" and last.decision_function_shape == "ovo"
        return scores if in_pairs else class_scores(scores, last.multiclass)

    def _hits(self, codes: NDArray[np.intp]) -> Floats:
        """Return the share of right predictions of each setting."""
        classes, labels = self.data.labels.classes, np.asarray(self.y_test)
        places = np.clip(np.searchsorted(classes, labels), 0, classes.size - 1)
        truth = np.where(classes[places] == labels, places, -1)
        return np.asarray((codes == truth).mean(axis=1))
