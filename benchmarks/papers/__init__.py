"""The tables of the papers: computed again, and compared with the printed numbers."""

from benchmarks.papers.figures import check_figures, write_figures, write_report
from benchmarks.papers.published import published, published_names
from benchmarks.papers.result import Reproduction
from benchmarks.papers.tables import reproduce, reproducible

__all__ = [
    "Reproduction",
    "check_figures",
    "published",
    "published_names",
    "reproduce",
    "reproducible",
    "write_figures",
    "write_report",
]
