"""Routines of numerical optimisation that every floor may use."""
