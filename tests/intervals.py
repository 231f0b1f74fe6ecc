"""What two certified intervals around the same optimum have to satisfy."""


def overlap(one, other, why="", *, gap=1e-6):
    """Demand that two intervals have a point in common, and that neither is so wide that this says
    nothing.

    Parameters
    ----------
    one, other : Certificate, or anything with a certificate
    why : object
        What to print where they do not.
    gap : float
        Largest relative gap of both.
    """
    a, b = (getattr(found, "certificate", found) for found in (one, other))
    assert a.lower <= b.upper, (why, a, b)
    assert b.lower <= a.upper, (why, a, b)
    assert max(a.gap, b.gap) <= gap, (why, a, b)
