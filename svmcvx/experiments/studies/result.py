"""Results of a study: rows, tables, tests, and their files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import pandas as pd

from svmcvx.display import check_mark, html_block, html_fields
from svmcvx.errors import renamed
from svmcvx.experiments.studies.latex import latex_diagram, latex_table
from svmcvx.experiments.studies.report import report
from svmcvx.experiments.studies.tables import StudyTables
from svmcvx.experiments.tables import table_html
from svmcvx.system.files import atomic_write

__all__ = ["Study"]


class Study(StudyTables):
    """The result of :func:`svmcvx.study`.

    Attributes
    ----------
    frame : DataFrame
        A row a task: ``dataset``, ``model``, ``repeat``, ``fold``, ``status`` (``"failed"`` where
        it failed), ``n_train``, ``n_test``, a column a metric, ``accuracy_lower`` and
        ``accuracy_upper`` (interval of every optimal machine; so for each metric of which there are
        intervals), ``accuracy_tied_lower`` and ``accuracy_tied_upper`` (with any of the settings
        that may be the best), ``undecided`` (share of the test rows whose label is not proved),
        ``params`` (chosen), ``tied`` (the settings that may be the best by cross-validation of
        optimal machines), ``lower`` and ``upper`` (checked interval around the optimum of the final
        fit), ``gap``, ``certified``, ``tuning_fits``, how many of them are certified
        (``tuning_certified``) and of how many no certificate was asked for (``tuning_batched``),
        ``n_support``, ``solver``, ``tuning_seconds``, ``seconds`` (all), ``proof`` (folder) and
        ``note``.
    models : tuple of str
    datasets : DataFrame
        Size, split and content digest of each data set.
    left_out : dict
        Why data sets could not be used.
    metrics : tuple of str
        Tables show the first one, unless another is named.
    protocol : dict of str
    complete : bool
        Whether all tasks are there.
    reused : int
        Tasks that were found in the store.
    versions : dict of str
        Versions of this package and of the numerical packages.
    """

    @staticmethod
    def concat(studies: Sequence[Study]) -> Study:
        """Return one study of all data sets from studies with the same protocol and the same names
        of models.
        """
        first = studies[0]
        found = copy(first)
        found.models = tuple(dict.fromkeys(name for one in studies for name in one.models))
        found.model_lines = {
            name: "; ".join(
                dict.fromkeys(one.model_lines[name] for one in studies if name in one.model_lines)
            )
            for name in found.models
        }
        found.conventions = {
            name: said for one in studies for name, said in one.conventions.items()
        }
        found.grids = {name: grid for one in studies for name, grid in one.grids.items()}
        found.datasets = pd.concat([one.datasets for one in studies], ignore_index=True)
        found.left_out = {name: why for one in studies for name, why in one.left_out.items()}
        found.complete = all(one.complete for one in studies)
        found.reused = sum(one.reused for one in studies)
        found.frame = pd.concat([one.frame for one in studies], ignore_index=True)
        found._right = pd.concat([one._right for one in studies], ignore_index=True)
        return found

    joined = renamed(concat, "Study.joined", "Study.concat")

    def _repr_html_(self) -> str:
        certified, solves = self.solves()
        failed = len(self.failures())
        fields = [
            ("Scores", f"{self.metrics[0]}, mean ± standard deviation over the splits"),
            ("Certified", f"{check_mark(certified == solves)} {certified} of {solves} solves"),
            *([("Failed", f"{failed} tasks")] if failed else []),
            *([("Models", " ".join(self.notes()))] if self.notes() else []),
            *([("Left out", f"{name}: {why}") for name, why in self.left_out.items()]),
        ]
        return html_block(repr(self), html_fields(fields), table_html(self.table()))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write all rows, whole or not at all."""
        with atomic_write(path) as stream:
            stream.write(self.frame.to_csv(index=False).encode())

    def to_latex(
        self, path: str | os.PathLike[str] | None = None, metric: str | None = None, digits: int = 3
    ) -> str:
        """Return the table of a metric for a document with the package booktabs; write it to `path`
        if that is given.

        Bold are the best of a row, and those without a significant difference from it in the
        corrected t-test at 0.05; a dagger marks models that predict one class only on some split.
        """
        text = latex_table(self, self._metric(metric), digits)
        if path is not None:
            with atomic_write(path) as stream:
                stream.write(text.encode())
        return text

    def diagram(self, path: str | os.PathLike[str], metric: str | None = None) -> None:
        """Write the diagram of mean ranks [Demsar]: for LaTeX with the package tikz (``.tex``), or
        as a picture (``.pdf``, ``.svg``, ``.png``; extra ``study``).

        Raises
        ------
        DataError
            If there are fewer than three models or two data sets with all scores.
        """
        path = Path(path)
        if path.suffix != ".tex":
            from svmcvx.experiments.studies.figures import critical_difference_diagram

            figure: Any = critical_difference_diagram(self, metric).figure
            figure.savefig(path, bbox_inches="tight")
            return
        with atomic_write(path) as stream:
            stream.write(latex_diagram(self.models, self.ranked(metric)).encode())

    def report(
        self,
        path: str | os.PathLike[str],
        comparisons: Mapping[str, pd.DataFrame] | None = None,
        title: str | None = None,
        figures: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Write a self-contained HTML file with all results (extra ``study``).

        Parameters
        ----------
        path : path-like
        comparisons : mapping of str to DataFrame, optional
            Tables of :func:`svmcvx.compare`, or others, that the report is to hold too, by their
            titles.
        title : str, optional
        figures : sequence of (str, str)
            SVG and caption of figures for these tables.
        """
        report(Path(path), self, comparisons or {}, title, figures)
