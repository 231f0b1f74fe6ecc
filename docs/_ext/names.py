"""Public names between backticks in a page or notebook become links to their entry in the API reference."""

import json
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref

# Words that are names of functions wherever a page has them in backticks; of other words in lower case that is not sure.
WORDS = ("certify", "compare", "select", "solve", "verify")
NAMES = json.loads((Path(__file__).parents[2] / "tests" / "public_names.json").read_text())


def full_name(text):
    """Return the public name that a piece of code begins with, or None: of ``sx.solve(problem)`` it is ``svmcvx.solve``."""
    name = text.partition("(")[0].removeprefix("svmcvx.").removeprefix("sx.")
    found = f"svmcvx.{name}"
    if name == text and name.isalnum() and name.islower() and name not in WORDS:
        return None
    return found if NAMES.get(found, "module") != "module" else None


def link_names(app, doctree):
    """Link the names of a page or notebook."""
    if not str(app.env.doc2path(app.env.current_document.docname)).endswith((".md", ".ipynb")):
        return
    for literal in list(doctree.findall(nodes.literal)):
        name = full_name(literal.astext())
        if name and not isinstance(literal.parent, (nodes.reference, nodes.title, pending_xref)):
            reference = pending_xref(
                "", refdomain="py", reftype="obj", reftarget=name, refdoc=app.env.current_document.docname
            )
            literal.replace_self(reference)
            reference += literal


def setup(app):
    """Link names as soon as a page is read."""
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
