"""Running models over data."""

from svmcvx.experiments.comparison import compare
from svmcvx.experiments.specifications import parse_models

__all__ = ["compare", "parse_models"]
