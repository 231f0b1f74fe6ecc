"""The figures that go with the papers' tables, one module a paper; :mod:`benchmarks.papers.figures`
lists them.
"""
