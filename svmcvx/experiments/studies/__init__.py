"""Studies: models over data sets and repeated splits."""

from svmcvx.experiments.studies.engine import study
from svmcvx.experiments.studies.protocol import Split
from svmcvx.experiments.studies.result import Study

__all__ = ["Split", "Study", "study"]
