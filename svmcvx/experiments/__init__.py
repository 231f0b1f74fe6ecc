"""Running models over data."""

from svmcvx.experiments.comparison import compare
from svmcvx.experiments.selection import Selection, select
from svmcvx.experiments.specifications import parse_models
from svmcvx.experiments.studies import Split, Study, study

__all__ = ["Selection", "Split", "Study", "compare", "parse_models", "select", "study"]
