"""Running models over data."""

from svmcvx.experiments.comparison import compare
from svmcvx.experiments.selection import Selection, select
from svmcvx.experiments.specifications import parse_models

__all__ = ["Selection", "compare", "parse_models", "select"]
