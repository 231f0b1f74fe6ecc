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
        assert f"{entry.fast.module}.".startswith(f"svmcvx.fast.{folder}.")
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
    shared = [name for name in builder if name not in ("X", "y", "time_limit")]
    both = {name for name in shared if name in solver}
    assert set(entry.fast.settings) == both | set(entry.fast.own)
    assert set(entry.fast.own) <= solver.keys() - builder.keys()
    alone = {name: builder[name].default for name in shared if name not in both}
    assert dict(entry.fast.only) == alone
    assert set(entry.fast.path) <= set(entry.fast.settings)
    assert all(builder[name].default == solver[name].default for name in both)


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
    data, labels = (SPREAD, THREE) if takes.several_classes else (X, Y)
    assert ("kernel" in parameters(build)) == takes.kernel
    if builder.name == entry.general:
        assert "sample_weight" in parameters(build)
    for rows in (data, sp.csr_array(data)):
        problem = build(rows, labels, **builder.example)
        assert isinstance(problem, sx.FormulationProblem)
        assert isinstance(problem.formulation, sx.Formulation)
    refuse_three(build, takes, builder.example)
    blocks = sx.RowBlocks([lambda: (data, labels)], labelled=True)
    with pytest.raises(sx.DataError, match="rows in blocks"):
        build(blocks, labels, **builder.example)


def refuse_three(function, takes, values):
    if not takes.several_classes:
        with pytest.raises(sx.DataError, match="Only binary classification is supported"):
            function(SPREAD, THREE, **values)


@pytest.mark.parametrize("entry", SOLVERS, ids=name_of)
def test_specialised_solvers_take_what_is_declared(entry):
    solver, takes, values = entry.fast.load(), entry.takes, entry.builder().example
    data, labels = (SPREAD, THREE) if takes.several_classes else (X, Y)
    assert ("kernel" in entry.fast.settings) == takes.kernel
    assert "sample_weight" in entry.fast.settings
    weights = {"sample_weight": np.linspace(0.5, 1.5, 12)}
    for answer in (
        solver(sp.csr_array(data), labels, **values),
        solver(data, labels, **values, **weights),
    ):
        assert answer.certificate.kind == "local" or answer.certificate.is_certified(1e-6)
    refuse_three(solver, takes, values)


def test_names_paths_and_models_are_those_of_the_catalogue():
    assert set(sx.fast.__all__) == {entry.fast.name for entry in SOLVERS} | {"path"}
    faces = {entry.estimator.name for entry in FACES}
    assert set(sx.estimators.__all__) == faces | {"BinaryClassifier", "certify"}
    assert set(PATHS) == {entry.name for entry in SOLVERS if entry.fast.path}
    # The number of violated margins depends on the data at hand, which folds do not share.
    varied = {name for entry in SOLVERS for name in entry.fast.path}
    assert set(PATH_PARAMETERS) == varied - {"k"}
    assert {face.name for face in MODELS.values()} == {entry.estimator.name for entry in FACES}


@pytest.mark.parametrize("file", WRITTEN)
def test_names_and_tables_are_those_of_the_catalogue(file):
    text = (ROOT / file).read_text()
    assert WRITTEN[file](text) == text, "run python -m tests.generated"


def test_every_paper_has_its_entry_in_the_bibliography():
    text = (ROOT / "docs" / "references.bib").read_text()
    keys = re.findall(r"^@\w+\{(\w+),", text, flags=re.MULTILINE)
    assert {entry.source for entry in ENTRIES} <= set(keys)
