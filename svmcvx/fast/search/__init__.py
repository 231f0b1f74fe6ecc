"""Exact search for losses that count: branch and bound, and the local search beside it."""
