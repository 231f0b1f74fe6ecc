"""Files that a forger might pass for proofs, each made by code, with the reason for which it must
be refused.

``python -m tests.proofs.forgeries FOLDER`` writes all of them, for checkers of others:
NAME.proof.npz, NAME.data.npz with X and y, and ``index.json`` with their reasons and, where it is
known, the optimum of the problem that the file states.
"""
