"""The 0-1 loss, the ramp loss and the l0-norm hinge: programs with z in {0, 1}."""
