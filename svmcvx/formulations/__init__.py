"""Formulations, one subpackage a family: statements, builders, recovery of points, certificates."""
