# One command each does all the set-up: make demo, make test, make docs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := $(VENV)-lowest
TESTS ?= tests
# As the extra of this name has it.
MOSEK := $(shell sed -n 's/^mosek = \["\(.*\)"\]$$/\1/p' pyproject.toml)
# The version that the tests of its loss run with.
TORCH := torch==2.13.0

.DEFAULT_GOAL := help
.PHONY: help demo test coverage mosek torch lowest docs site lint dist clean

help:
	@echo "make demo   install into $(VENV); intervals of scikit-learn's and our answers on real data, and the picture of the README, in demo/"
	@echo "make test   install into $(VENV) and run the tests"
	@echo "make coverage  the same, and the lines that no test runs"
	@echo "make mosek  run the tests of solvers with MOSEK beside $(VENV), up to its licence"
	@echo "make torch  run the tests of the loss for networks with PyTorch (CPU) beside $(VENV)"
	@echo "make lowest run the tests with the lowest versions that pyproject.toml allows, in $(LOWEST); TESTS=tests/formulations/test_psvm.py for some"
	@echo "make docs   install into $(VENV) and build the site in docs/_build/html, its notebooks in small: some ten minutes, without output"
	@echo "make site   the same with the notebooks in full, as it is published; SVMCVX_REPOSITORY and SVMCVX_SITE are the addresses of sources and site"
	@echo "make lint   ruff, mypy and numpydoc's rules"
	@echo "make dist   build wheel and sdist in dist/ and try them in an empty environment; the addresses above become its links"
	@echo "make clean  remove $(VENV) and what the tools left"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "svmcvx needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp a set of extras; a change of pyproject.toml installs again.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cli,plot]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

$(VENV)/.dist: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	@touch $@

$(VENV)/.lint: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[lint,cli,plot]'
	@touch $@

demo: $(VENV)/.demo
	@mkdir -p demo
	$(BIN)/python docs/picture.py demo/picture.png
	$(BIN)/svmcvx compare iris:versicolor-virginica --models psvm,conic,ramp,zero-one:lam=1000 --split 0 --plot demo/iris.png --json demo/iris.json

test: $(VENV)/.test
	$(BIN)/python -m pytest -n logical --dist loadfile

# Lists the lines that no test runs. The tests take about half as long again while they are traced.
coverage: $(VENV)/.test
	$(BIN)/python -m pytest -n logical --dist loadfile --cov --cov-report=term

# MOSEK lies in a folder of its own: installed where it has no licence, it would end the plain solve() of every cvxpy problem.
$(VENV)/.mosek: pyproject.toml | $(VENV)/.test
	rm -rf $(VENV)/mosek
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(VENV)/mosek '$(MOSEK)'
	@touch $@

mosek: $(VENV)/.mosek
	PYTHONPATH=$(CURDIR)/$(VENV)/mosek $(BIN)/python -m pytest tests/solve/test_licences.py tests/solve/test_solve.py

# PyTorch takes some 800 MB of disk, and nothing else needs it. uv finds its CPU build on any system; pip is for machines that do not reach the
# index of that build.
$(VENV)/.torch: pyproject.toml | $(VENV)/.test
	rm -rf $(VENV)/torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/python -m uv pip install --quiet --python $(BIN)/python --target $(VENV)/torch --torch-backend cpu '$(TORCH)' || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(VENV)/torch '$(TORCH)'
	@touch $@

torch: $(VENV)/.torch
	PYTHONPATH=$(CURDIR)/$(VENV)/torch $(BIN)/python -m pytest tests/test_torch.py

# The lower bounds of pyproject.toml: each package at the lowest version that it allows, in an environment of its own.
$(LOWEST)/.installed: pyproject.toml
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip compile --quiet --resolution lowest-direct --extra test --extra mosek --output-file $(LOWEST)/requirements.txt pyproject.toml
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --requirements $(LOWEST)/requirements.txt
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --editable .
	@touch $@

lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python -m pytest -n logical --dist loadfile $(TESTS)

docs: $(VENV)/.docs
	SVMCVX_SMALL=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "open docs/_build/html/index.html"

# In full: some 20 minutes. Outputs are stored by the code of the notebooks, so that a second build runs only those that have changed.
site: $(VENV)/.docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -D nb_execution_cache_path=$(CURDIR)/docs/_build/notebooks_in_full docs docs/_build/site
	@echo "open docs/_build/site/index.html"

dist: $(VENV)/.dist
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tests/try_distributions.py dist

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/typing/user_code.py
	$(BIN)/python -m tests.docstrings

clean:
	rm -rf $(VENV) $(LOWEST) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage demo dist docs/_api docs/_build docs/_notebooks docs/_pictures docs/_root
