"""What the specialised solvers of all families share."""
