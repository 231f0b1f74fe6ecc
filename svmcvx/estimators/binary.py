"""What the estimators of binary formulations share, for two classes or more."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from svmcvx.arrays import Floats
from svmcvx.catalogue import find
from svmcvx.certificate import Certificate
from svmcvx.data import CodedLabels, check_choice, parts
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier, estimator
from svmcvx.estimators.request import FAST, Request, TrainingData
from svmcvx.kernels import Kernel, Linear, Precomputed, as_kernel
from svmcvx.kernels.functions import restricted
from svmcvx.model import (
    BinaryModel,
    KernelModel,
    LinearModel,
    OneVsModel,
    class_scores,
    frozen,
    pair_votes,
)
from svmcvx.row_blocks import ClassPartition, in_blocks, mapped_rows
from svmcvx.solution import Solution, Status, composite
from svmcvx.system.deadline import time_limited

if TYPE_CHECKING:
    from svmcvx.fast.margin.pairs import SolvedParts


SCHEMES = ("auto", "ovo", "ovr")
# Classes of sparse data up to which linear machines are those of pairs: c(c − 1)/2 weight vectors
# as long as a row is wide, in place of c.
FEW_CLASSES = 10


@estimator
class BinaryClassifier(CertifiedClassifier):
    """Base class of estimators of binary formulations, which several classes are parted into.

    An estimator of a formulation outside this package derives from it: ``__init__`` sets the
    hyper-parameters, and ``_builder`` returns the function that builds the problem from ``X``,
    ``y`` and them (and ``sample_weight``, if weights are passed to ``fit``). A shared parameter
    that ``__init__`` does not list has the value below; the builder gets `kernel` as a
    :class:`svmcvx.Kernel`, if ``__init__`` lists it. ``docs/add_formulation.md`` shows an example,
    and :mod:`svmcvx.arguments` documents the parameters.
    """

    kernel: Kernel | str | Callable[[Any, Any], Any] | None = None
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    indefinite: str = "error"
    multiclass: str = "auto"
    decision_function_shape: str = "ovr"
    break_ties: bool = True
    n_jobs: int | None = None

    def set_params(self, **params: Any) -> Self:
        """Set parameters as in scikit-learn; ``kernel__gamma`` replaces the kernel object."""
        prefix = "kernel__"
        own = {
            name.removeprefix(prefix): params[name] for name in params if name.startswith(prefix)
        }
        super().set_params(**{name: params[name] for name in params if not name.startswith(prefix)})
        if not own:
            return self
        if not isinstance(self.kernel, Kernel):
            raise DataError(
                f"{prefix}{next(iter(own))} needs a kernel object, such as kernel=svmcvx.RBF();"
                f" kernel={self.kernel!r} has gamma, degree and coef0 beside it"
            )
        if unknown := own.keys() - self.kernel.get_params().keys():
            names = ", ".join(self.kernel.get_params()) or "none"
            raise DataError(f"{self.kernel!r} has no parameter {min(unknown)!r}; it has {names}")
        self.kernel = replace(self.kernel, **own)  # type: ignore[type-var]
        return self

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        return settings | {"kernel": self._kernel()} if "kernel" in settings else settings

    def _kernel(self) -> Kernel | None:
        return as_kernel(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    def _check_several(self) -> None:
        """Check the parameters for several classes, for any number of classes."""
        check_choice(self.multiclass, "multiclass", SCHEMES)
        check_choice(self.decision_function_shape, "decision_function_shape", ("ovr", "ovo"))
        if not isinstance(self.break_ties, (bool, np.bool_)):
            raise DataError(f"break_ties must be True or False, got {self.break_ties!r}")
        if (self.multiclass, self.decision_function_shape) == ("ovr", "ovo"):
            raise DataError(
                "decision_function_shape='ovo' needs a machine for each pair of classes; leave it"
                " at 'ovr', or use multiclass='ovo'"
            )
        jobs = self.n_jobs
        whole = isinstance(jobs, (int, np.integer)) and not isinstance(jobs, bool)
        if jobs is not None and (not whole or jobs == 0):
            raise DataError(
                "n_jobs must be None or a whole number other than 0 (-1 for all processors), got"
                f" {jobs!r}"
            )

    def _scheme(self, data: TrainingData) -> str:
        """Return the binary problems of several classes, ``"auto"`` resolved."""
        if self.multiclass != "auto":
            return self.multiclass
        wide = sp.issparse(data.X) and isinstance(self._kernel(), Linear | None)
        many = data.labels.classes.size > FEW_CLASSES and self.decision_function_shape == "ovr"
        return "ovr" if wide and many else "ovo"

    def _largest(self, data: TrainingData) -> int:
        counts = sorted(np.bincount(data.labels.codes).tolist())
        return sum(counts[-2:] if self._scheme(data) == "ovo" else counts)

    def _solve(self, request: Request, data: TrainingData, warm_start: Solution | None) -> Solution:
        self._check_several()
        if data.labels.classes.size > 2:
            return solve_each(request, data, self._scheme(data), self.n_jobs, warm_start)
        with time_limited(request.time_limit):
            together = solved_together(request, data, "ovo")
            if together is not None and together.certified[0]:
                return together.solution(0, lambda: together.members({})[0])
            return request.run(*data, warm_start)

    def _solved(self) -> tuple[Solution, ...]:
        return tuple(self.solutions_.values())

    def _solve_blocks(
        self, request: Request, X: Any, sides: ClassPartition, sample_weight: Any
    ) -> Solution:
        """Solve all binary problems one after another: each uses all processors, or the cluster."""
        check_choice(self.multiclass, "multiclass", SCHEMES)
        names = sides.classes.tolist()
        scheme = "ovo" if self.multiclass == "auto" else self.multiclass
        if len(names) == 2:
            return super()._solve_blocks(request, X, sides, sample_weight)
        pairs = combinations(range(len(names)), 2)
        problems = [replace(sides, pair=pair) for pair in pairs]
        if scheme == "ovr":
            problems = [replace(sides, against_rest=k) for k in range(len(names))]
        found: list[Solution] = []
        with time_limited(request.time_limit) as deadline:
            for part in problems:
                limited = _limited(request, deadline.remaining / (len(problems) - len(found)))
                found.append(limited.run(X, part, sample_weight, None))
        parts = dict(zip(keys(names, scheme), found, strict=True))
        return composite(parts, scheme, sides.classes, request.tol)

    def _shortfall(self, solution: Solution) -> str | None:
        described = super()._shortfall
        parts = solution.parts.values() if solution.status is not Status.OPTIMAL else ()
        ordered = sorted(parts, key=lambda part: -part.certificate.gap)
        short = [message for message in map(described, ordered) if message is not None]
        if not short:
            return described(solution)
        return f"{len(short)} of {len(parts)} binary problems are short of tol, by: {short[0]}"

    @property
    def solutions_(self) -> dict[Any, Solution]:
        """The solution of each binary problem, by the pair of its labels, or by the label against
        the rest.
        """
        check_is_fitted(self, "solution_")
        whole = self.solution_
        return dict(whole.parts) or {tuple(self.classes_.tolist()): whole}

    @property
    def certificates_(self) -> dict[Any, Certificate]:
        """The certificate of each binary problem, by the same keys as :attr:`solutions_`."""
        whole = self.certificate_
        return whole.parts or {tuple(self.classes_.tolist()): whole}

    @property
    def _members(self) -> Sequence[BinaryModel]:
        model = self.model_
        return model.members if isinstance(model, OneVsModel) else (cast(BinaryModel, model),)

    @property
    def coef_(self) -> Floats:
        """The normals, one row a binary problem, shape (1, d) for two classes; of linear machines,
        also those with ``kernel="linear"``.
        """
        rows = []
        for member in self._members:
            if isinstance(member, LinearModel):
                rows.append(member.coef)
            elif isinstance(member, KernelModel) and isinstance(member.kernel, Linear):
                rows.append(np.asarray(cast(Any, member.vectors).T @ member.dual_coef))
            else:
                raise AttributeError("coef_ exists for kernel=None and kernel='linear' only")
        return frozen(np.stack(rows))

    @property
    def dual_coef_(self) -> Floats:
        """The signed multipliers of the rows :attr:`support_`, one row a binary problem.

        Those of a linear machine (kernel=None) are the dual point of its certificate, for which
        :attr:`coef_` is ``dual_coef_ @ X[support_]`` up to the gap. It exists for pSVM, hard margin
        and ODM in memory.
        """
        members = [member for member in self._members if isinstance(member, KernelModel)]
        found = [(member.support, member.dual_coef) for member in members]
        if len(found) < len(self._members):
            found = list(self._expansions())
        rows = self.support_
        order = np.argsort(rows)
        coefficients = np.zeros((len(found), rows.size))
        for row, (index, values) in zip(coefficients, found, strict=True):
            row[order[np.searchsorted(rows, index, sorter=order)]] = values
        return frozen(coefficients)

    def _expansions(self) -> Iterator[tuple[NDArray[np.intp], Floats]]:
        """Yield rows and signed multipliers of each binary problem's dual point."""
        entry = find(self._stated_as())
        if self._codes is None:
            raise AttributeError(
                "dual_coef_ does not exist for rows in blocks, with which the multipliers stay"
            )
        labels = CodedLabels(self._codes.astype(np.intp), self.classes_)
        scheme = "ovr" if isinstance(self.model_, OneVsModel) and not self._in_pairs() else "ovo"
        for (rows, part), solution in zip(parts(labels, scheme), self._solved(), strict=True):
            found = None
            if entry is not None:
                found = entry.load_statement().expansion_multipliers(solution.dual)
            if found is None:
                raise AttributeError(
                    "dual_coef_ exists for kernel machines, and for pSVM, hard margin and ODM"
                    " without one"
                )
            used = np.isin(rows, self.support_)
            yield rows[used], found[used] * (2.0 * part.codes[used] - 1.0)

    @property
    def support_vectors_(self) -> Any:
        """The rows :attr:`support_` of the training data, shape (s, d), of a kernel machine; empty
        for a precomputed kernel.
        """
        members = [member for member in self._members if isinstance(member, KernelModel)]
        if not members:
            raise AttributeError(
                "support_vectors_ exists for kernel machines; one with kernel=None keeps no rows of"
                " X: take X[support_]"
            )
        parts: list[Any] = [member.vectors for member in members]
        if any(vectors is None for vectors in parts):
            return np.empty((0, 0))
        rows, first = np.unique(
            np.concatenate([member.support for member in members]), return_index=True
        )
        chosen = first[np.searchsorted(rows, self.support_)]
        if sp.issparse(parts[0]):
            return sp.csr_array(sp.vstack(parts))[chosen]
        return frozen(np.concatenate(parts)[chosen])

    @property
    def intercept_(self) -> Floats:
        """The biases, one a binary problem, shape (1,) for two classes."""
        return frozen(np.array([member.intercept for member in self._members]))

    def _in_pairs(self) -> bool:
        model = self.model_
        return isinstance(model, OneVsModel) and model.scheme == "ovo"

    def decision_function(self, X: Any) -> Floats:
        """Return the score of each row, positive for ``classes_[1]``, shape (m,).

        For several classes a score of each row for each class, shape (m, c); see
        :class:`svmcvx.OneVsModel`. With ``decision_function_shape="ovo"`` those of the pairs k < l
        in lexicographic order, positive for the later class, ``X @ coef_.T + intercept_`` of linear
        machines, shape (m, c(c−1)/2).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            For rows in blocks the result is an array (:class:`svmcvx.RowBlocks`) or a lazy Dask
            array, and so that of ``predict``.
        """
        model = self.model_
        of_pairs = self.decision_function_shape == "ovo" and self._in_pairs()
        method = "member_scores" if of_pairs else "decision_function"
        if in_blocks(X):
            columns = None
            if isinstance(model, OneVsModel):
                columns = len(model.members if of_pairs else self.classes_)
            return cast(Floats, mapped_rows(model, method, X, np.float64, columns=columns))
        scores: Floats = getattr(model, method)(self._checked(X))
        return scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row of `X`, of shape (m, d)."""
        model = self.model_
        if in_blocks(X):
            return cast(NDArray[Any], mapped_rows(model, "predict", X, self.classes_.dtype))
        checked = self._checked(X)
        if not isinstance(model, OneVsModel):
            codes = (model.decision_function(checked) > 0).astype(np.intp)
        else:
            scores = model.member_scores(checked)
            votes = model.scheme == "ovo" and not self.break_ties
            of_class = pair_votes(scores) if votes else class_scores(scores, model.scheme)
            codes = np.argmax(of_class, axis=1)
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed" or isinstance(
            self.kernel, Precomputed
        )
        return tags


def keys(names: list[Any], scheme: str) -> list[Any]:
    return [*combinations(names, 2)] if scheme == "ovo" else names


def _limited(request: Request, seconds: float) -> Request:
    """Return the request with a time limit in seconds, which may be infinite or 0."""
    if math.isinf(seconds):
        return request
    # Without time the answer is the trivial interval.
    return replace(
        request, time_limit=max(min(seconds, request.time_limit or math.inf), sys.float_info.min)
    )


def _lifted(solution: Solution, rows: NDArray[np.intp], width: int) -> Solution:
    """Return a solution with the support as rows of all data, of `width` columns."""
    model = cast(BinaryModel, solution.model)
    wide = {"n_features": width} if isinstance(model, KernelModel) else {}
    return replace(
        solution,
        model=replace(model, support=rows[model.support], **wide),  # type: ignore[type-var]
        evidence=solution.evidence and replace(solution.evidence, rows=rows),
    )


def solve_each(
    request: Request,
    data: TrainingData,
    scheme: str,
    n_jobs: int | None,
    warm_start: Solution | None = None,
) -> Solution:
    """Solve all binary problems, in parallel; the same result for any `n_jobs`."""
    X, labels, weight = data
    every = keys(labels.classes.tolist(), scheme)
    earlier: Mapping[Any, Solution | None] = dict.fromkeys(every)
    if warm_start is not None:
        if list(warm_start.parts) != every:
            raise DataError(
                "warm_start must be the solution_ of an earlier fit with the same classes and the"
                " same multiclass"
            )
        earlier = warm_start.parts
    with time_limited(request.time_limit) as deadline:
        # Together they take less than warm starts one by one, so that these are for what is left.
        together = solved_together(request, data, scheme)
        if together is not None and together.certified.all():
            return together.composite({})
        left = [k for k in range(len(every)) if together is None or not together.certified[k]]
        every_part = list(parts(labels, scheme))
        problems = [(every[k], *every_part[k]) for k in left]
        jobs = min(int(effective_n_jobs(n_jobs)), len(problems))

        def inputs() -> Iterator[tuple[Any, ...]]:
            for key, rows, part in problems:
                own = None if weight is None else weight[rows]
                yield restricted(X, rows, request.settings.get("kernel")), part, own, earlier[key]

        found: list[Solution] = []
        if jobs > 1:
            limited = _limited(request, deadline.remaining * jobs / len(problems))
            found = Parallel(n_jobs=n_jobs)(delayed(limited.run)(*given) for given in inputs())
        else:
            for given in inputs():
                share = deadline.remaining / (len(problems) - len(found))
                found.append(_limited(request, share).run(*given))
    lifted = [
        _lifted(solution, rows, X.shape[1])
        for (_, rows, _), solution in zip(problems, found, strict=True)
    ]
    if together is not None:
        return together.composite(dict(zip(left, lifted, strict=True)))
    return composite(dict(zip(every, lifted, strict=True)), scheme, labels.classes, request.tol)


def solved_together(request: Request, data: TrainingData, scheme: str) -> SolvedParts | None:
    """Solve the binary problems together; None if impossible, verbose or limited in iterations."""
    settings = dict(request.settings)
    kernel = settings.pop("kernel", None)
    usual = settings.pop("intercept", "free") == "free"
    usual = usual and settings.pop("indefinite", "error") in ("error", "clip")
    followed = request.verbose or request.max_iter is not None
    stated = None if request.entry is None else request.entry.name
    if stated != "psvm" or not usual or followed or request.route != FAST:
        return None
    # Imported here, since it compiles.
    from svmcvx.fast.margin.pairs import solve_parts

    return solve_parts(
        *data,
        scheme=scheme,
        kernel=kernel,
        tol=request.tol,
        cache_size=cast(float, request.cache_size),
        **settings,
    )
