"""Modules that the specialised solvers of all families share."""
