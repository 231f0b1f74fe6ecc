"""Proofs that can be handed on, and the second checker, which shares nothing with the package but
its errors.
"""

from __future__ import annotations

from svmcvx.proofs.checker import CheckedScores, Verified, verify
from svmcvx.proofs.format import Proof, ProofFile, fingerprint, read_proof, write_proof
from svmcvx.proofs.statement import Statement

__all__ = ["CheckedScores", "Proof", "ProofFile", "Statement", "Verified", "fingerprint"]
__all__ += ["read_proof", "verify", "write_proof"]
