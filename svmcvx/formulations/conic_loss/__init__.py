"""The conic-loss family: the semidefinite relaxation of the 0-1 loss."""
