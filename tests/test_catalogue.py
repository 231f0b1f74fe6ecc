"""The catalogue against the code: what a record declares is what the builders, solvers and
estimators do.
"""

import inspect
import re

import numpy as np
import pytest
import scipy.sparse as sp

import svmcvx as sx
from svmcvx.catalogue import CATALOGUE, FAMILIES, find
from svmcvx.experiments.selection import PATH_PARAMETERS
from svmcvx.experiments.specifications import MODELS, parse_models
from svmcvx.fast.warm_path import PATHS
from tests.conftest import make_data
from tests.generated import ROOT, WRITTEN

X, Y = make_data(n=12, d=2, overlap=0.3)
X = X + 1.5 * Y[:, None]
THREE = np.arange(12) % 3
SPREAD = X + 4.0 * np.stack([THREE == 1, THREE == 2], axis=1)

ENTRIES = list(CATALOGUE.values())
BUILDERS = [(entry, builder) for entry in ENTRIES for builder in entry.builders]
SOLVERS = [entry for entry in ENTRIES if entry.fast is not None]
FACES = [entry for entry in ENTRIES if entry.estimator is not None]


def name_of(entry):
    return entry.name


def parameters(function):
    return inspect.signature(function).parameters


def settings_of(entry):
    return entry.builder().example


@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
def test_every_record_names_what_exists(entry):
    assert find(entry.name) is entry
    assert entry.family in FAMILIES
    assert issubclass(entry.load_statement(), sx.Formulation)
    assert entry.builder().name == entry.general
    for builder in entry.builders:
        assert getattr(sx, builder.name) is builder.load()
        assert builder.load().__module__ == builder.module
    if entry.fast is not None:
        assert getattr(sx.fast, entry.fast.name) is entry.fast.load()
        folder = "several_classes" if entry.family == "multiclass" else entry.family
        assert f"svmcvx.fast.{folder}." in entry.fast.module
    if entry.estimator is not None:
        assert getattr(sx, entry.estimator.name) is getattr(sx.estimators, entry.estimator.name)
        assert entry.estimator.load()._formulation == entry.name
        assert entry.estimator.module == f"svmcvx.estimators.{entry.family}"


def test_what_is_not_in_the_catalogue():
    assert find("nothing") is None
    assert find(None) is None
    with pytest.raises(
        sx.DataError, match="psvm has no builder 'odm_dual'; it has psvm_dual, psvm_primal"
    ):
        CATALOGUE["psvm"].builder("odm_dual")


@pytest.mark.parametrize("entry", SOLVERS, ids=name_of)
def test_settings_are_those_that_builder_and_specialised_solver_share(entry):
    builder, solver = parameters(entry.builder().load()), parameters(entry.fast.load())
    own = [name for name in builder if name not in ("X", "y", "time_limit")]
    assert set(entry.fast.settings) == {name for name in own if name in solver} | set(
        entry.fast.own
    )
    assert set(entry.fast.own) <= solver.keys() - builder.keys()
    assert dict(entry.fast.only) == {
        name: builder[name].default for name in own if name not in solver
    }
    assert set(entry.fast.path) <= set(entry.fast.settings)
    for name in set(entry.fast.settings) - set(entry.fast.own):
        both = builder[name].default, solver[name].default
        assert both[0] == both[1] or (both[0] is both[1])


@pytest.mark.parametrize("entry", FACES, ids=name_of)
def test_estimators_have_the_settings_of_their_builders(entry):
    face = entry.estimator.load()()
    own = () if entry.fast is None else entry.fast.own
    assert set(face._settings()) <= {*parameters(face._builder()), *own}
    assert face._builder() is entry.builder().load()
    named, estimator = parse_models(entry.estimator.example)[0]
    assert named.startswith(entry.estimator.command)
    assert isinstance(estimator, entry.estimator.load())


@pytest.mark.parametrize(("entry", "builder"), BUILDERS, ids=lambda value: value.name)
def test_builders_take_what_is_declared(entry, builder):
    build, takes = builder.load(), entry.takes
    values = builder.example
    data, labels = (SPREAD, THREE) if takes.several_classes else (X, Y)
    assert ("kernel" in parameters(build)) == takes.kernel
    if builder.name == entry.general:
        assert ("sample_weight" in parameters(build)) == takes.weights
    problem = build(data, labels, **values)
    assert isinstance(problem, sx.FormulationProblem)
    assert isinstance(problem.formulation, sx.Formulation)
    if takes.kernel:
        assert isinstance(build(data, labels, kernel=sx.RBF(0.5), **values), sx.FormulationProblem)
    if takes.sparse:
        assert isinstance(build(sp.csr_array(data), labels, **values), sx.FormulationProblem)
    if takes.several_classes:
        assert isinstance(build(X, Y, **values), sx.FormulationProblem)
    else:
        with pytest.raises(sx.DataError, match="Only binary classification is supported"):
            build(SPREAD, THREE, **values)
    blocks = sx.RowBlocks([lambda: (data, labels)], labelled=True)
    with pytest.raises(sx.DataError, match="rows in blocks"):
        build(blocks, labels, **values)


@pytest.mark.parametrize("entry", SOLVERS, ids=name_of)
def test_specialised_solvers_take_what_is_declared(entry):
    solver, takes, values = entry.fast.load(), entry.takes, settings_of(entry)
    data, labels = (SPREAD, THREE) if takes.several_classes else (X, Y)
    assert ("kernel" in entry.fast.settings) == takes.kernel
    assert ("sample_weight" in entry.fast.settings) == takes.weights
    calls = [{}]
    calls += [{"kernel": sx.RBF(0.5)}] if takes.kernel else []
    calls += [{"sample_weight": np.linspace(0.5, 1.5, 12)}] if takes.weights else []
    answers = [solver(data, labels, **values, **more) for more in calls]
    answers += [solver(sp.csr_array(data), labels, **values)] if takes.sparse else []
    for answer in answers:
        assert isinstance(answer, sx.Solution)
        assert answer.formulation == answers[0].formulation
        if answer.certificate.kind == "local":
            assert answer.certificate.lower is None
        else:
            assert answer.certificate.is_certified(1e-6)
    if not takes.several_classes:
        with pytest.raises(sx.DataError, match="Only binary classification is supported"):
            solver(SPREAD, THREE, **values)


def test_searches_follow_what_paths_follow():
    varied = {name for entry in SOLVERS for name in entry.fast.path}
    # The number of violated margins is a whole number of the data at hand, which folds do not
    # share.
    assert set(PATH_PARAMETERS) == varied - {"k"}


def test_paths_and_models_are_those_of_the_catalogue():
    assert set(PATHS) == {entry.name for entry in SOLVERS if entry.fast.path}
    assert {face.name for face in MODELS.values()} == {entry.estimator.name for entry in FACES}
    assert len(MODELS) == len(FACES)


@pytest.mark.parametrize("file", WRITTEN)
def test_names_and_tables_are_those_of_the_catalogue(file):
    text = (ROOT / file).read_text()
    assert WRITTEN[file](text) == text, "run python -m tests.generated"


def test_every_paper_has_its_entry_in_the_bibliography():
    keys = re.findall(
        r"^@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text(), flags=re.MULTILINE
    )
    assert {entry.source for entry in ENTRIES} <= set(keys)


def test_no_word_of_the_old_routes_is_left():
    pages = [
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs").glob("[fh]*/*.md"),
        *(ROOT / "svmcvx" / "estimators").glob("*.py"),
    ]
    for page in pages:
        assert not re.search(
            r"conic route|first-order solver|fast path|route ``\"conic\"``", page.read_text()
        ), page
