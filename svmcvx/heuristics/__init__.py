"""Good feasible points by cheap means: incumbents, local search, rounding."""
