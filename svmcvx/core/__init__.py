"""The foundation of every certificate: arithmetic with error bounds, exact sums, proved eigenvalue
bounds.

:mod:`~svmcvx.core.bounded` has numbers and arrays with an error bound, so that an objective is
written once, for plain and for bounded numbers; :mod:`~svmcvx.core.rows` has products with the rows
of data; :mod:`~svmcvx.core.exactly` operations without any error; :mod:`~svmcvx.core.definite`
bounds of eigenvalues. The second checker imports none of them.
"""
