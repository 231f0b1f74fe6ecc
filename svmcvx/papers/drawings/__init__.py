"""The figures that go with the papers' tables, one module a paper; :mod:`svmcvx.papers.figures`
lists them.
"""
