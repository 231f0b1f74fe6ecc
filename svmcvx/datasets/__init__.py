"""Data sets: scikit-learn's built-in ones, files, and those of the papers (extra ``data`` to
download them).
"""

from svmcvx.datasets.loading import BUILT_IN, ENVIRONMENT_VARIABLE, load
from svmcvx.datasets.registry import Dataset, Record, content_digest, known_sets

__all__ = ["BUILT_IN", "ENVIRONMENT_VARIABLE", "Dataset", "Record", "content_digest"]
__all__ += ["known_sets", "load"]
