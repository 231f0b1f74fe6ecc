"""Newton's method for linear machines: problems, systems, passes over the rows."""
