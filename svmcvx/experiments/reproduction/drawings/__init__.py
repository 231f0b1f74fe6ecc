"""The figures that go with the papers' tables, one module a paper; :mod:`svmcvx.experiments.reproduction.figures` lists them."""
