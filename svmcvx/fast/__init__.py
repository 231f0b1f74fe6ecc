"""First-order solvers for large instances, each returning the same certified Solution as the conic route."""
