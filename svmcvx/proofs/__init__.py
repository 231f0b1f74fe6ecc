"""Proofs that can be handed on, and the second checker, which shares nothing with the package but its errors."""

from __future__ import annotations

from svmcvx.proofs.checker import Verified, verify
from svmcvx.proofs.format import Proof, fingerprint, read_proof, write_proof

__all__ = ["Proof", "Verified", "fingerprint", "read_proof", "verify", "write_proof"]
