"""The tables of the papers, computed again beside the printed numbers."""

from svmcvx.experiments.reproduction.published import published, published_names
from svmcvx.experiments.reproduction.tables import Reproduction, reproduce, reproducible

__all__ = ["Reproduction", "published", "published_names", "reproduce", "reproducible"]
