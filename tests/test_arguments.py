"""Arguments that several functions share: one table, helpful errors for other names, old names for
one release.
"""

import inspect
import re
from functools import partial

import pytest

import svmcvx as sx
from svmcvx.arguments import ARGUMENTS, documented, intercept_kind
from svmcvx.catalogue import CATALOGUE
from svmcvx.data import CONSTRAINTS
from svmcvx.experiments import parse_models

X, Y = sx.synthetic.outlier_data(24, 2, sigma=0.3, outliers="none", seed=0)
FRONT_ENDS = [
    *(builder.load() for entry in CATALOGUE.values() for builder in entry.builders),
    *(entry.fast.load() for entry in CATALOGUE.values() if entry.fast),
    *(entry.estimator.load() for entry in CATALOGUE.values() if entry.estimator),
    *(getattr(sx.plot, name) for name in sx.plot.__all__),
]


def described(text):
    """Names of the parameters in a docstring, in their order."""
    section = re.split(
        r"\n    [A-Z]\w+\n    -{3,}\n", text.split("\n    Parameters\n    ----------\n")[1]
    )[0]
    titles = re.findall(r"^    (\w[^\n:]*?)(?: : .*)?$", section, flags=re.MULTILINE)
    return [name for title in titles for name in title.split(", ")]


@pytest.mark.parametrize(
    "front", FRONT_ENDS, ids=lambda front: f"{front.__module__}.{front.__name__}"
)
def test_every_argument_is_documented_once_and_shared_ones_have_one_default(front):
    parameters = inspect.signature(front).parameters
    assert described(front.__doc__) == list(parameters)
    mathematics = r":math:`[^`]*`|\\w+{[^}]*}|``[^`]*``|\.\. math::.*?\n\n"
    assert "{" not in re.sub(mathematics, "", front.__doc__, flags=re.DOTALL)
    defaults = {"tol": 1e-6, "verbose": False} | dict.fromkeys(("time_limit", "callback"))
    for name in defaults.keys() & parameters.keys():
        assert parameters[name].default == defaults[name]


BAD = (True, b"1", "1", float("nan"), -1.0, [1.0], 1j)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_a_hyper_parameter_has_the_same_check_and_sentence_on_every_route(name):
    """Builder, specialised solver and estimator, for each value of another type or range."""
    entry = CATALOGUE[name]
    routes = [(builder.load(), dict(builder.example)) for builder in entry.builders]
    example = {key: value for builder in entry.builders for key, value in builder.example.items()}
    if entry.fast is not None:
        routes.append((entry.fast.load(), example))
    if entry.estimator is not None:
        made = entry.estimator.load()
        routes.append((lambda X, y, **given: made(**given).fit(X, y), example))
        known = set(made().get_params())
    for argument in (CONSTRAINTS.keys() & example.keys() | {"tol"}) - {"gamma"}:
        for bad in BAD:
            found = set()
            for route, given in routes:
                takes = (
                    known if route.__name__ == "<lambda>" else inspect.signature(route).parameters
                )
                if argument not in takes:
                    continue
                own = {key: value for key, value in given.items() if key in takes}
                with pytest.raises(sx.DataError, match=rf"^{argument} must be a") as refused:
                    route(X, Y, **{**own, argument: bad})
                found.add(str(refused.value))
            assert len(found) <= 1, found


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sx.ConicSVMClassifier(C=1), "the weight is called lam"),
        (lambda: sx.fast.conic(X, Y, C=1), r"fast\.conic .*'C': the weight is called lam"),
        (lambda: sx.ConicSVMClassifier().set_params(C=1), "'C': the weight is called lam"),
        (lambda: sx.ODMClassifier(lam=1), "the weights are called C1 and C2"),
        (lambda: sx.psvm_dual(X, Y, lam=1), "the weight is called C"),
        (lambda: sx.psvm_dual(X, Y, gamma=1), r"belongs to the kernel, as in kernel=svmcvx\.RBF"),
        (lambda: sx.fast.psvm(X, Y, random_state=0), "it is called seed"),
        (lambda: sx.PSVMClassifier(kernal="rbf"), "did you mean 'kernel'"),
        (lambda: sx.PSVMClassifer, "did you mean 'PSVMClassifier'"),
        (lambda: sx.fast.zeroone, "did you mean 'zero_one'"),
        (lambda: sx.PSVMClassifier(nothing_like_it=1), "there are C, p, penalty"),
        (lambda: sx.solve(sx.psvm_dual(X, Y, C=1.0), max_iters=9), "solver_options="),
        (lambda: sx.PSVMClassifier(probability=True), "CalibratedClassifierCV"),
        (lambda: sx.PSVMClassifier().fit(X, Y).predict_proba(X), "CalibratedClassifierCV"),
        (lambda: sx.PSVMClassifier(shrinking=False), "leave it out"),
        (lambda: sx.PSVMClassifier(1.0), r"write PSVMClassifier\(C=1\.0\)"),
        (lambda: sx.ODMLClassifier(1.0), r"write ODMLClassifier\(lam1=1\.0\)"),
        (lambda: sx.PSVMClassifier(max_iter=-1).fit(X, Y), "got -1; None is no limit"),
        (lambda: sx.fast.l0(X, Y, method="lcal"), "did you mean 'local'"),
        (lambda: sx.fast.multiclass(X, Y, loss="crammersinger"), "did you mean 'crammer_singer'"),
        (lambda: sx.datasets.load("brest_cancer"), "did you mean 'breast_cancer'"),
        (lambda: parse_models("conic:C=1"), "the weight is called lam"),
        (lambda: sx.RBF(gamma="skale"), "'scale' or 'auto', got 'skale'; did you mean 'scale'"),
    ],
)
def test_other_names_are_refused_with_the_one_that_was_meant(call, message):
    with pytest.raises((sx.DataError, AttributeError), match=message):
        call()


def test_the_intercept_has_one_set_of_values():
    assert [
        intercept_kind(value, own="penalised") for value in (True, False, "penalised", "none")
    ] == [*("penalised", "none"), *("penalised", "none")]
    with pytest.raises(sx.DataError, match="this formulation has no free intercept"):
        sx.fast.odm(X, Y, intercept="free")
    with pytest.raises(sx.DataError, match="this formulation has no penalised intercept"):
        sx.fast.multiclass(X, Y, intercept="penalised")
    for kinds, solve in (
        ((True, "free"), partial(sx.fast.psvm, X, Y)),
        ((False, "none"), partial(sx.fast.psvm, X, Y)),
        ((True, "penalised"), partial(sx.fast.odm, X, Y)),
        ((False, "none"), partial(sx.fast.conic, X, Y, lam=1.0)),
        ((True, "free"), partial(sx.fast.multiclass, X, Y)),
        ((False, "none"), lambda intercept: sx.ODMClassifier(intercept=intercept).fit(X, Y)),
    ):
        first, second = (solve(intercept=kind) for kind in kinds)
        names = ("certificate", "certificate_")
        assert [getattr(first, n, None) for n in names] == [getattr(second, n, None) for n in names]


def test_shared_arguments_are_written_in_the_order_of_the_signature():
    def function(X, *, C=1.0, tol=1e-3, own=None):
        pass

    function.__doc__ = """Do it.

    Parameters
    ----------
    own : int
        Of its own.
    C : float
        Weight.

    Returns
    -------
    None
    """
    assert described(documented(function).__doc__) == ["X", "C", "tol", "own"]
    assert "0.001 by default" in function.__doc__
    assert "Returns" in function.__doc__


def test_the_table_names_arguments_that_there_are():
    used = {name for front in FRONT_ENDS for name in inspect.signature(front).parameters}
    assert set(ARGUMENTS) <= used
