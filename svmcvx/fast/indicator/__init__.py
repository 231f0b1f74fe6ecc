"""The indicator family: programs with z in {0, 1} for the 0-1 loss, the ramp loss and the l0-norm
hinge.
"""
