"""Numbers that enclose: balls of any precision, and intervals of doubles."""
