"""The catalogue: one record a formulation, with all that the rest of the package needs to know of
it.

The lazy names of :mod:`svmcvx`, the estimators' choice of a route, ``fast.path``, the models of the
command line and the tables of the documentation are read from these records. A formulation is added
by a module with its statement and builders, an estimator, if it has one a specialised solver, and a
record here; ``python -m tests.generated`` then rewrites the lists of names and the tables.

This module imports nothing of the package but its errors: records name modules, which are imported
on request.

>>> from svmcvx.catalogue import find
>>> find("psvm").fast.path
('C', 'p')
>>> find("psvm").source
'Sun'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from inspect import signature
from typing import Any, Final, NamedTuple

from svmcvx.errors import DataError

__all__ = [
    "CATALOGUE",
    "FAMILIES",
    "Builder",
    "Capabilities",
    "Entry",
    "Estimator",
    "FastSolver",
    "SizeLimits",
    "find",
]

FAMILIES: Final = ("margin", "margin_distribution", "conic_loss", "indicator", "multiclass")


class SizeLimits(NamedTuple):
    """Numbers of observations up to which the general route is the quicker one, without and with a
    kernel.
    """

    linear: int
    kernel: int


# Arguments of specialised solvers beside the problem: the data, and how it is solved.
HOW: Final = frozenset(
    (
        *("X", "y", "tol", "time_limit", "max_iter", "verbose", "callback", "warm_start"),
        *("cache_size", "float32_cache", "method", "rounding", "seed", "settings"),
    )
)
ALWAYS_FAST: Final = SizeLimits(0, 0)


@dataclass(frozen=True)
class Capabilities:
    """What data a formulation takes.

    Attributes
    ----------
    kernel : bool
        Kernels, by the argument ``kernel`` of the builders.
    weights : bool
        Weights of the observations, by the argument ``sample_weight``.
    several_classes : bool
        More than two classes in one problem.
    sparse : bool
        Sparse matrices.
    row_blocks : bool
        Whether the specialised solver, without a kernel, takes data in blocks of rows that are
        never in memory as a whole.
    """

    kernel: bool = True
    weights: bool = True
    several_classes: bool = False
    sparse: bool = True
    row_blocks: bool = False


@dataclass(frozen=True)
class Builder:
    """A public function of :mod:`svmcvx` that returns a cvxpy problem.

    Attributes
    ----------
    name : str
    module : str
        Where it is defined.
    example : mapping
        Values for its hyper-parameters without a default, for tests and documentation.
    """

    name: str
    module: str
    example: Mapping[str, Any]

    def load(self) -> Any:
        """Import the function."""
        return getattr(import_module(self.module), self.name)


@dataclass(frozen=True)
class Estimator:
    """A public classifier of :mod:`svmcvx`.

    Attributes
    ----------
    name : str
    module : str
        Where it is defined.
    example : str
        How it is written on the command line, with settings.
    call : str
        How it is written in Python, where that is not the name alone.
    """

    name: str
    module: str
    example: str
    call: str = ""

    @property
    def command(self) -> str:
        """Its name on the command line."""
        return self.example.partition(":")[0]

    def load(self) -> Any:
        """Import the class."""
        return getattr(import_module(self.module), self.name)


@dataclass(frozen=True)
class FastSolver:
    """A specialised solver, a public function of :mod:`svmcvx.fast`.

    Attributes
    ----------
    name : str
    module : str
        Where it is defined.
    only : mapping
        Arguments of the builder that it does not take, with the value at which it solves the same
        problem.
    path : tuple of str
        Hyper-parameters that may vary along ``fast.path``; none if it has no paths.
    own : tuple of str
        Those of these arguments that only the solver takes, not the builder.
    second_opinion_up_to : SizeLimits
        Sizes up to which the general route is tried too where this solver does not certify what was
        asked for.
    methods : str
        The methods in a few words, for the documentation.
    parts : str
        A function, as ``"module:name"``, that solves the binary problems of several classes
        together; none where each is solved on its own.
    """

    name: str
    module: str
    only: Mapping[str, Any] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    second_opinion_up_to: SizeLimits = ALWAYS_FAST
    methods: str = ""
    parts: str = ""

    def load(self) -> Any:
        """Import the function."""
        return getattr(import_module(self.module), self.name)

    @cached_property
    def settings(self) -> tuple[str, ...]:
        """Arguments that state the problem, in the order of the signature."""
        names = signature(self.load()).parameters
        return tuple(name for name in names if name not in HOW or name in self.own)

    def load_parts(self) -> Any:
        """Import the function for the problems of several classes together; None if there is none."""
        module, _, name = self.parts.partition(":")
        return getattr(import_module(module), name) if module else None


@dataclass(frozen=True)
class Entry:
    """The record of a formulation.

    Attributes
    ----------
    name : str
    title : str
        What it is, in a line.
    family : str
        One of :data:`FAMILIES`: the folder of its rooms.
    source : str
        Key of the paper in ``docs/references.bib``.
    statement : str
        The class of its statement, as ``"module:Class"``.
    builders : tuple of Builder
    general : str
        The builder that the estimator gives to :func:`svmcvx.solve`, and whose arguments the
        specialised solver shares.
    takes : Capabilities
    regulariser, losses, intercept : str
        The scaling of the objective, for the documentation.
    mixed_integer : bool
        Whether the general route needs a mixed-integer solver.
    estimator : Estimator or None
    fast : FastSolver or None
    """

    name: str
    title: str
    family: str
    source: str
    statement: str
    builders: tuple[Builder, ...]
    general: str
    takes: Capabilities
    regulariser: str
    losses: str
    intercept: str
    mixed_integer: bool = False
    estimator: Estimator | None = None
    fast: FastSolver | None = None

    def load_statement(self) -> Any:
        """Import the class of the statement."""
        module, _, name = self.statement.partition(":")
        return getattr(import_module(module), name)

    def builder(self, name: str | None = None) -> Builder:
        """Return a builder by its name; by default that of the general route."""
        wanted = name or self.general
        for found in self.builders:
            if found.name == wanted:
                return found
        raise DataError(
            f"{self.name} has no builder {wanted!r}; it has"
            f" {', '.join(b.name for b in self.builders)}"
        )


_FORMULATIONS, _FAST, _ESTIMATORS = "svmcvx.formulations", "svmcvx.fast", "svmcvx.estimators"


def _builders(module: str, *names: str, **example: Any) -> tuple[Builder, ...]:
    return tuple(Builder(name, f"{_FORMULATIONS}.{module}", example) for name in names)


_CLASSICAL = (
    "weston_watkins",
    "crammer_singer",
    "msvm",
    "topk_svm",
    "multinomial_lr",
    "sparse_multinomial_lr",
)


# Specialised solvers of convex machines are the quicker ones at any size. The sizes for a second
# opinion are measured: a Clarabel solve of a machine with a kernel takes 0.1 s at 200 observations
# and ten times as long at twice as many; a semidefinite one with a kernel takes a second at 50.
CATALOGUE: Final[Mapping[str, Entry]] = {
    entry.name: entry
    for entry in (
        Entry(
            name="psvm",
            title="pSVM: hinge loss to the power p ≥ 1",
            family="margin",
            source="Sun",
            statement=f"{_FORMULATIONS}.margin:PSVM",
            builders=_builders("margin_problems", "psvm_primal", "psvm_dual", C=1.0, p=1.5),
            general="psvm_dual",
            takes=Capabilities(row_blocks=True),
            regulariser="½‖w‖²",
            losses="C Σ ξ_i^p",
            intercept="free by default (unpenalised)",
            estimator=Estimator("PSVMClassifier", f"{_ESTIMATORS}.margin", "psvm:p=1.5"),
            fast=FastSolver(
                "psvm",
                f"{_FAST}.margin.psvm",
                only={"exponent": "power"},
                path=("C", "p"),
                second_opinion_up_to=SizeLimits(200, 200),
                methods=(
                    "kernels: pSMO in large working sets with a bounded cache, for every p ≥ 1, and"
                    " Newton on a low-rank factor where pairs are slow; linear: Newton and active"
                    " sets without a Gram matrix, dense and sparse"
                ),
                parts=f"{_FAST}.margin.pairs:solve_parts",
            ),
        ),
        Entry(
            name="hard_margin",
            title="hard-margin SVM",
            family="margin",
            source="Sun",
            statement=f"{_FORMULATIONS}.margin:HardMargin",
            builders=_builders("margin_problems", "hard_margin_dual"),
            general="hard_margin_dual",
            takes=Capabilities(row_blocks=True),
            regulariser="½‖w‖²",
            losses="none",
            intercept="free",
            fast=FastSolver(
                "hard_margin",
                f"{_FAST}.margin.hard_margin",
                methods="kernels: pSMO; linear: dual active set in growing working sets",
            ),
        ),
        Entry(
            name="conic",
            title="conic loss: the 0-1 loss relaxed to a semidefinite program",
            family="conic_loss",
            source="CepedaGomezHan",
            statement=f"{_FORMULATIONS}.conic_loss.statement:ConicLoss",
            builders=(
                *_builders("conic_loss.problems", "conic_sdp", lam=1.0),
                *_builders("conic_loss.problems", "conic_fixed_gamma", gamma=1e-3, lam=1.0),
            ),
            general="conic_sdp",
            takes=Capabilities(),
            regulariser="‖w‖² (no ½)",
            losses="λ Σ loss_i",
            intercept="a constant feature, penalised with the rest",
            estimator=Estimator("ConicSVMClassifier", f"{_ESTIMATORS}.conic_loss", "conic:lam=1"),
            fast=FastSolver(
                "conic",
                f"{_FAST}.conic_loss.conic",
                only={"form": "reduced"},
                path=("lam", "kappa"),
                second_opinion_up_to=SizeLimits(200, 50),
                methods=(
                    "the semidefinite relaxation without a semidefinite solver: low-rank Newton, λ"
                    " and κ forms, kernels"
                ),
            ),
        ),
        Entry(
            name="odm",
            title="optimal margin distribution machine",
            family="margin_distribution",
            source="ZhangZhou",
            statement=f"{_FORMULATIONS}.margin_distribution:ODM",
            builders=_builders(
                "margin_distribution_problems", "odm_primal", "odm_dual", C1=1.0, C2=1.0, D=0.1
            ),
            general="odm_dual",
            takes=Capabilities(row_blocks=True),
            regulariser="½‖w‖²",
            losses="(1/n) Σ …",
            intercept="none by default, or a constant feature",
            estimator=Estimator("ODMClassifier", f"{_ESTIMATORS}.margin_distribution", "odm"),
            fast=FastSolver(
                "odm",
                f"{_FAST}.margin_distribution.odm",
                only={"form": "signed"},
                path=("C1", "C2", "D"),
                second_opinion_up_to=SizeLimits(200, 200),
                methods=(
                    "Newton, dual coordinate descent (dense and sparse); kernels by coordinate"
                    " descent or Newton"
                ),
            ),
        ),
        Entry(
            name="odml",
            title="its predecessor ODML (margin mean and variance)",
            family="margin_distribution",
            source="ZhangZhou",
            statement=f"{_FORMULATIONS}.margin_distribution:ODML",
            builders=(
                *_builders(
                    "margin_distribution_problems",
                    "odml_primal",
                    "odml_dual",
                    lam1=0.1,
                    lam2=0.1,
                    C=1.0,
                ),
                *_builders("margin_distribution_problems", "odml_hard_margin", lam1=0.1, lam2=0.1),
            ),
            general="odml_dual",
            takes=Capabilities(row_blocks=True),
            regulariser="½‖w‖²",
            losses="(1/n) Σ …",
            intercept="none by default, or a constant feature",
            estimator=Estimator("ODMLClassifier", f"{_ESTIMATORS}.margin_distribution", "odml"),
            fast=FastSolver(
                "odml",
                f"{_FAST}.margin_distribution.odml",
                path=("C", "lam1", "lam2"),
                second_opinion_up_to=SizeLimits(200, 200),
                methods=(
                    "dual coordinate descent, or an augmented Lagrangian Newton method; low rank"
                    " for large kernels"
                ),
            ),
        ),
        Entry(
            name="zero_one",
            title="exact 0-1 loss, mixed-integer",
            family="indicator",
            source="CepedaGomezHan",
            statement=f"{_FORMULATIONS}.indicator.statement:ZeroOne",
            builders=_builders("indicator.problems", "zero_one_mio", lam=1.0),
            general="zero_one_mio",
            takes=Capabilities(),
            regulariser="‖w‖² (no ½)",
            losses="λ · count",
            intercept="a constant feature, penalised with the rest",
            mixed_integer=True,
            estimator=Estimator("ZeroOneSVMClassifier", f"{_ESTIMATORS}.indicator", "zero-one"),
            fast=FastSolver(
                "zero_one",
                f"{_FAST}.indicator.solvers",
                only={"M": "auto", "form": "big-m", "incumbent": None},
                path=("lam", "k"),
                methods=(
                    "the exact 0-1 loss to proved optimality: branch and bound by big-M relaxations"
                    " that shrink with the node"
                ),
            ),
        ),
        Entry(
            name="ramp",
            title="ramp loss, mixed-integer",
            family="indicator",
            source="Brooks",
            statement=f"{_FORMULATIONS}.indicator.statement:Ramp",
            builders=_builders("indicator.problems", "ramp_mio", C=1.0),
            general="ramp_mio",
            takes=Capabilities(),
            regulariser="½‖w‖²",
            losses="C Σ (ξ_i + 2z_i)",
            intercept="free",
            mixed_integer=True,
            estimator=Estimator("RampSVMClassifier", f"{_ESTIMATORS}.indicator", "ramp"),
            fast=FastSolver(
                "ramp",
                f"{_FAST}.indicator.solvers",
                only={"M": "auto", "incumbent": None},
                path=("C",),
                methods=(
                    "the ramp loss to proved optimality: branch and bound by big-M relaxations that"
                    " shrink with the node"
                ),
            ),
        ),
        Entry(
            name="l0",
            title="l0-norm hinge, mixed-integer",
            family="indicator",
            source="LinYaoLiu",
            statement=f"{_FORMULATIONS}.indicator.statement:L0",
            builders=_builders("indicator.problems", "l0_mio", C=1.0),
            general="l0_mio",
            takes=Capabilities(),
            regulariser="½‖w‖²",
            losses="C · count",
            intercept="free",
            mixed_integer=True,
            estimator=Estimator("L0SVMClassifier", f"{_ESTIMATORS}.indicator", "l0"),
            fast=FastSolver(
                "l0",
                f"{_FAST}.indicator.solvers",
                own=("method",),
                only={"M": "auto", "incumbent": None},
                path=("C",),
                methods=(
                    "branch and bound, to the global minimum of some hundred observations; beyond,"
                    " a local search, stationary to rounding"
                ),
            ),
        ),
        Entry(
            name="m3svm",
            title="M3SVM: largest minimum margin between classes, ISM3",
            family="multiclass",
            source="NieHaoWang",
            statement=f"{_FORMULATIONS}.multiclass.machines:M3SVM",
            builders=(
                *_builders("multiclass.problems", "m3svm", lam=0.1, p=2.0),
                *_builders("multiclass.problems", "m3svm_hard_margin", p=2.0),
            ),
            general="m3svm",
            takes=Capabilities(kernel=False, several_classes=True),
            regulariser="λ Σ_{k<l} ‖w_k − w_l‖^p + ε(‖W‖² + ‖b‖²)",
            losses="Σ (no average)",
            intercept="penalised by ε only",
            estimator=Estimator("M3SVMClassifier", f"{_ESTIMATORS}.multiclass", "m3svm:p=4"),
            fast=FastSolver(
                "m3svm",
                f"{_FAST}.several_classes.solvers",
                only={"norm": 2},
                path=("lam", "p", "eps"),
                methods=(
                    "hinge, smoothed, logistic and softmax losses, every p ≥ 1: Newton on ever less"
                    " smoothing, and an augmented Lagrangian method"
                ),
            ),
        ),
        Entry(
            name="multiclass",
            title=(
                "Weston-Watkins, Crammer-Singer, M-SVM, top-k, (sparse) multinomial logistic"
                " regression"
            ),
            family="multiclass",
            source="NieHaoWang",
            statement=f"{_FORMULATIONS}.multiclass.machines:ClassicalStatement",
            builders=_builders("multiclass.problems", "multiclass", *_CLASSICAL, lam=1.0),
            general="multiclass",
            takes=Capabilities(kernel=False, several_classes=True),
            regulariser="λ Σ ‖w_k‖²",
            losses="Σ (no average)",
            intercept="free by default",
            estimator=Estimator(
                "MulticlassSVMClassifier",
                f"{_ESTIMATORS}.multiclass",
                "multiclass",
                "MulticlassSVMClassifier(loss=…)",
            ),
            fast=FastSolver(
                "multiclass",
                f"{_FAST}.several_classes.solvers",
                path=("lam",),
                second_opinion_up_to=SizeLimits(200, 200),
                methods=(
                    "hinges: augmented Lagrangian method with semismooth Newton steps; logistic"
                    " regression: Newton's method"
                ),
            ),
        ),
    )
}


def find(name: str | None) -> Entry | None:
    """Return the record of a formulation; None if it is not in the catalogue."""
    return None if name is None else CATALOGUE.get(name)
