"""Exact search for losses that count: branch and bound, and the sweep of all vertices."""
