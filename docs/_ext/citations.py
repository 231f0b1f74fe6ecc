"""``[Sun]`` in pages and docstrings becomes a link into the bibliography, which shows the keys as
labels.

Sources keep plain brackets, which read well on a code host and in ``help()``.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pybtex.plugin
import sphinxcontrib.bibtex.plugin
from pybtex.style.formatting.unsrt import Style
from pybtex.style.labels import BaseLabelStyle
from pybtex.style.sorting.author_year_title import SortingStyle
from sphinxcontrib.bibtex.style.referencing import BracketStyle
from sphinxcontrib.bibtex.style.referencing.label import LabelReferenceStyle

BIBLIOGRAPHY = Path(__file__).parents[1] / "references.bib"
KEYS = re.findall(r"^@\w+\{(\w+),", BIBLIOGRAPHY.read_text(), flags=re.MULTILINE)
CITED = re.compile(rf"(?<![\w`\]])\[({'|'.join(KEYS)})\](?![\w(\[`])")


class KeyLabels(BaseLabelStyle):
    """Labels that are the keys."""

    def format_labels(self, sorted_entries):
        """Return the keys."""
        return [entry.key for entry in sorted_entries]


class KeyStyle(Style):
    """Entries by author, under their keys."""

    default_label_style = KeyLabels
    default_sorting_style = SortingStyle


@dataclass
class KeyReferences(LabelReferenceStyle):
    """Citations by key, in brackets."""

    bracket: BracketStyle = field(default_factory=lambda: BracketStyle("[", "]"))


def cite_in_page(app, name, source):
    """Link the citations of a Markdown page."""
    if Path(app.env.doc2path(name)).suffix == ".md":
        source[0] = CITED.sub(r"{cite}`\1`", source[0])


def cite_in_docstring(app, what, name, obj, options, lines):
    """Link the citations of a docstring."""
    lines[:] = [CITED.sub(r":cite:`\1`", line) for line in lines]


def setup(app):
    """Register the style and the two replacements."""
    pybtex.plugin.register_plugin("pybtex.style.formatting", "keys", KeyStyle)
    sphinxcontrib.bibtex.plugin.register_plugin(
        "sphinxcontrib.bibtex.style.referencing", "keys", KeyReferences
    )
    app.connect("source-read", cite_in_page)
    app.connect("autodoc-process-docstring", cite_in_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
