"""Exact searches for losses that count: branch and bound, directions, and a local search."""
