"""The tables of the papers: computed again, and compared with the printed numbers."""

from svmcvx.papers.figures import write_figures, write_report
from svmcvx.papers.published import published, published_names
from svmcvx.papers.result import Reproduction
from svmcvx.papers.tables import reproduce, reproducible

__all__ = [
    "Reproduction",
    "published",
    "published_names",
    "reproduce",
    "reproducible",
    "write_figures",
    "write_report",
]
