"""The catalogue: one record a formulation, with all that the rest of the package needs to know of
it.

The lazy names of :mod:`svmcvx`, the estimators' choice of a route, ``fast.path``, the models of the
command line and the tables of the documentation are read from these records. A formulation is added
by a module with its statement and builders, an estimator, if it has one a specialised solver, and a
record here; ``python -m tests.generated`` then rewrites the stub and the tables.

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

__all__ = ["CATALOGUE", "FAMILIES", "KERNELS", "TOL", "Builder", "Capabilities", "Entry"]
__all__ += ["Estimator", "FastSolver", "SizeLimits", "find"]

FAMILIES: Final = ("margin", "margin_distribution", "conic_loss", "indicator", "multiclass")
# Default of the certified relative gap that specialised solvers, estimators and tables ask for.
TOL: Final = 1e-6
# Kernels that are given by name.
KERNELS: Final = ("linear", "rbf", "exponential", "laplacian", "poly", "sigmoid", "precomputed")
# Arguments of specialised solvers beside the problem: the data, and how it is solved.
HOW: Final = (
    "X y tol time_limit max_iter verbose callback warm_start cache_size float32_cache method"
    " rounding seed settings"
)


class SizeLimits(NamedTuple):
    """Observations up to which a general solver may do better, without and with a kernel."""

    linear: int = 0
    kernel: int = 0


class Capabilities(NamedTuple):
    """Whether a formulation takes kernels, several classes, and (its solver) rows in blocks."""

    kernel: bool = True
    several_classes: bool = False
    row_blocks: bool = False


NEVER, USUAL = SizeLimits(), Capabilities()


@dataclass(frozen=True)
class _Loaded:
    """A public function or class, imported on request."""

    name: str
    module: str

    def load(self) -> Any:
        """Import it."""
        return getattr(import_module(self.module), self.name)


@dataclass(frozen=True)
class Builder(_Loaded):
    """A public function of :mod:`svmcvx` that returns a cvxpy problem."""

    # Values for its hyper-parameters without a default.
    example: Mapping[str, Any]


@dataclass(frozen=True)
class Estimator(_Loaded):
    """A public classifier of :mod:`svmcvx`."""

    # How it is written on the command line, with settings.
    example: str

    @property
    def command(self) -> str:
        """Its name on the command line."""
        return self.example.partition(":")[0]


@dataclass(frozen=True)
class FastSolver(_Loaded):
    """A specialised solver, a public function of :mod:`svmcvx.fast`."""

    # In a few words, for the documentation.
    methods: str
    # Hyper-parameters that may vary along ``fast.path``; none if it has no paths.
    path: tuple[str, ...] = ()
    # Arguments of the builder that it does not take, at the values for which it solves the same
    # problem; and its own settings, which the builder does not take.
    only: Mapping[str, Any] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    # Sizes up to which the general route is tried too if this solver misses the wanted gap.
    second_opinion_up_to: SizeLimits = NEVER

    @cached_property
    def settings(self) -> tuple[str, ...]:
        """Arguments that state the problem, in the order of the signature."""
        how, names = HOW.split(), signature(self.load()).parameters
        return tuple(name for name in names if name not in how or name in self.own)


@dataclass(frozen=True)
class Entry:
    """The record of a formulation."""

    name: str
    title: str
    # Key of the paper in ``docs/references.bib``.
    source: str
    # The class of its statement, as ``"module:Class"`` below ``svmcvx.formulations``.
    statement: str
    # The first is the one that the estimator gives to :func:`svmcvx.solve`, and whose arguments the
    # specialised solver shares.
    builders: tuple[Builder, ...]
    # The scaling of the objective, for the documentation.
    regulariser: str
    losses: str
    intercept: str
    takes: Capabilities = USUAL
    estimator: Estimator | None = None
    fast: FastSolver | None = None

    @property
    def family(self) -> str:
        """One of :data:`FAMILIES`: the folder of its rooms."""
        return self.statement.partition(":")[0].partition(".")[0]

    @property
    def general(self) -> str:
        """The builder of the general route."""
        return self.builders[0].name

    def load_statement(self) -> Any:
        """Import the class of the statement."""
        module, _, name = self.statement.partition(":")
        return getattr(import_module(f"{_FORMULATIONS}.{module}"), name)

    def builder(self, name: str | None = None) -> Builder:
        """Return a builder by its name; by default that of the general route."""
        for found in self.builders:
            if name in (None, found.name):
                return found
        names = ", ".join(builder.name for builder in self.builders)
        raise DataError(f"{self.name} has no builder {name!r}; it has {names}")


_FORMULATIONS, _FAST, _ESTIMATORS = "svmcvx.formulations", "svmcvx.fast", "svmcvx.estimators"


def _builders(module: str, *names: str, **example: Any) -> tuple[Builder, ...]:
    return tuple(Builder(name, f"{_FORMULATIONS}.{module}", example) for name in names)


_CLASSICAL = "multiclass weston_watkins crammer_singer msvm topk_svm multinomial_lr"
_CLASSICAL += " sparse_multinomial_lr"
_MARGINS = "margin_distribution_problems"
# Sizes for a second opinion are measured: a Clarabel solve of a machine with a kernel takes 0.1 s
# at 200 observations and ten times as long at twice as many; a semidefinite one with a kernel takes
# a second at 50.
_QUADRATIC, _SEMIDEFINITE = SizeLimits(200, 200), SizeLimits(200, 50)


CATALOGUE: Final[Mapping[str, Entry]] = {
    entry.name: entry
    for entry in (
        Entry(
            name="psvm",
            title="pSVM: hinge loss to the power p ≥ 1",
            source="Sun",
            statement="margin:PSVM",
            builders=_builders("margin_problems", "psvm_dual", "psvm_primal", C=1.0, p=1.5),
            takes=Capabilities(row_blocks=True),
            regulariser="½‖w‖²",
            losses="C Σ ξ_i^p",
            intercept="free by default (unpenalised)",
            estimator=Estimator("PSVMClassifier", f"{_ESTIMATORS}.margin", "psvm:p=1.5"),
            fast=FastSolver(
                "psvm",
                f"{_FAST}.margin.psvm",
                path=("C", "p"),
                second_opinion_up_to=_QUADRATIC,
                methods="kernels: pSMO, Newton on a low-rank factor; linear: Newton, active sets",
            ),
        ),
        Entry(
            name="hard_margin",
            title="hard-margin SVM",
            source="Sun",
            statement="margin:HardMargin",
            builders=_builders("margin_problems", "hard_margin_dual"),
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
            source="CepedaGomezHan",
            statement="conic_loss.statement:ConicLoss",
            builders=_builders("conic_loss.problems", "conic_sdp", lam=1.0)
            + _builders("conic_loss.problems", "conic_fixed_gamma", gamma=1e-3, lam=1.0),
            regulariser="‖w‖² (no ½)",
            losses="λ Σ loss_i",
            intercept="a constant feature, penalised with the rest",
            estimator=Estimator("ConicSVMClassifier", f"{_ESTIMATORS}.conic_loss", "conic:lam=1"),
            fast=FastSolver(
                "conic",
                f"{_FAST}.conic_loss.conic",
                only={"form": "reduced"},
                path=("lam", "kappa"),
                second_opinion_up_to=_SEMIDEFINITE,
                methods="low-rank Newton on the semidefinite relaxation, λ and κ forms",
            ),
        ),
        Entry(
            name="odm",
            title="optimal margin distribution machine",
            source="ZhangZhou",
            statement="margin_distribution:ODM",
            builders=_builders(_MARGINS, "odm_dual", "odm_primal", C1=1.0, C2=1.0, D=0.1),
            takes=Capabilities(row_blocks=True),
            regulariser="½‖w‖²",
            losses="(1/n) Σ …",
            intercept="none by default, or a constant feature",
            estimator=Estimator("ODMClassifier", f"{_ESTIMATORS}.margin_distribution", "odm"),
            fast=FastSolver(
                "odm",
                f"{_FAST}.margin_distribution.solvers",
                only={"form": "signed"},
                path=("C1", "C2", "D"),
                second_opinion_up_to=_QUADRATIC,
                methods="Newton, dual coordinate descent; kernels by coordinate descent or Newton",
            ),
        ),
        Entry(
            name="odml",
            title="its predecessor ODML (margin mean and variance)",
            source="ZhangZhou",
            statement="margin_distribution:ODML",
            builders=_builders(_MARGINS, "odml_dual", "odml_primal", lam1=0.1, lam2=0.1, C=1.0)
            + _builders(_MARGINS, "odml_hard_margin", lam1=0.1, lam2=0.1),
            takes=Capabilities(row_blocks=True),
            regulariser="½‖w‖²",
            losses="(1/n) Σ …",
            intercept="none by default, or a constant feature",
            estimator=Estimator("ODMLClassifier", f"{_ESTIMATORS}.margin_distribution", "odml"),
            fast=FastSolver(
                "odml",
                f"{_FAST}.margin_distribution.solvers",
                path=("C", "lam1", "lam2"),
                second_opinion_up_to=_QUADRATIC,
                methods="dual coordinate descent, or an augmented Lagrangian Newton method",
            ),
        ),
        Entry(
            name="zero_one",
            title="exact 0-1 loss, mixed-integer",
            source="CepedaGomezHan",
            statement="indicator.statement:ZeroOne",
            builders=_builders("indicator.problems", "zero_one_mio", lam=1.0),
            regulariser="‖w‖² (no ½)",
            losses="λ · count",
            intercept="a constant feature, penalised with the rest",
            estimator=Estimator("ZeroOneSVMClassifier", f"{_ESTIMATORS}.indicator", "zero-one"),
            fast=FastSolver(
                "zero_one",
                f"{_FAST}.indicator",
                own=("method",),
                only={
                    "M": "auto",
                    "form": "big-m",
                    "gamma": "norms",
                    "relax": False,
                    "incumbent": None,
                },
                path=("lam", "k"),
                methods="branch and bound by big-M relaxations that shrink with the node; a search"
                " over directions of few columns",
            ),
        ),
        Entry(
            name="ramp",
            title="ramp loss, mixed-integer",
            source="Brooks",
            statement="indicator.statement:Ramp",
            builders=_builders("indicator.problems", "ramp_mio", C=1.0),
            regulariser="½‖w‖²",
            losses="C Σ (ξ_i + 2z_i)",
            intercept="free",
            estimator=Estimator("RampSVMClassifier", f"{_ESTIMATORS}.indicator", "ramp"),
            fast=FastSolver(
                "ramp",
                f"{_FAST}.indicator",
                only={"M": "auto", "relax": False, "incumbent": None},
                path=("C",),
                methods="branch and bound by big-M relaxations that shrink with the node",
            ),
        ),
        Entry(
            name="l0",
            title="l0-norm hinge, mixed-integer",
            source="LinYaoLiu",
            statement="indicator.statement:L0",
            builders=_builders("indicator.problems", "l0_mio", C=1.0),
            regulariser="½‖w‖²",
            losses="C · count",
            intercept="free",
            estimator=Estimator("L0SVMClassifier", f"{_ESTIMATORS}.indicator", "l0"),
            fast=FastSolver(
                "l0",
                f"{_FAST}.indicator",
                own=("method",),
                only={"M": "auto", "relax": False, "incumbent": None},
                path=("C",),
                methods="branch and bound, or directions; of large data a local search, stationary"
                " to rounding",
            ),
        ),
        Entry(
            name="m3svm",
            title="M3SVM: largest minimum margin between classes, ISM3",
            source="NieHaoWang",
            statement="multiclass.machines:M3SVM",
            builders=_builders("multiclass.problems", "m3svm", lam=0.1, p=2.0)
            + _builders("multiclass.problems", "m3svm_hard_margin", p=2.0),
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
                methods="hinges: augmented Lagrangian Newton method; smooth losses: Newton",
            ),
        ),
        Entry(
            name="multiclass",
            title="Weston-Watkins, Crammer-Singer, M-SVM, top-k, (sparse) multinomial logistic",
            source="NieHaoWang",
            statement="multiclass.machines:ClassicalStatement",
            builders=_builders("multiclass.problems", *_CLASSICAL.split(), lam=1.0),
            takes=Capabilities(kernel=False, several_classes=True),
            regulariser="λ Σ ‖w_k‖²",
            losses="Σ (no average)",
            intercept="free by default",
            estimator=Estimator(
                "MulticlassSVMClassifier", f"{_ESTIMATORS}.multiclass", "multiclass"
            ),
            fast=FastSolver(
                "multiclass",
                f"{_FAST}.several_classes.solvers",
                path=("lam",),
                second_opinion_up_to=_QUADRATIC,
                methods="hinges: coordinate ascent, augmented Lagrangian Newton; logistic: Newton",
            ),
        ),
    )
}


def find(name: str | None) -> Entry | None:
    """Return the record of a formulation.

    Parameters
    ----------
    name : str or None
        Its key in :data:`CATALOGUE`.

    Returns
    -------
    Entry or None
        None if it is not in the catalogue.

    Examples
    --------
    >>> import svmcvx as sx
    >>> sx.catalogue.find("odm").source
    'ZhangZhou'
    """
    return CATALOGUE.get(name or "")
