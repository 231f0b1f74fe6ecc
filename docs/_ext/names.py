"""Public names between backticks in a page or notebook become links to their entry in the API
reference, names of other packages links to their documentation, and names of pages links to them.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from other_packages import NAMES as OTHERS
from sphinx.addnodes import pending_xref

# Words that are names of functions wherever a page has them in backticks; of other words in lower
# case that is not sure.
WORDS = ("certify", "compare", "select", "solve", "verify")
NAMES = json.loads((Path(__file__).parents[2] / "tests" / "public_names.json").read_text())


def full_name(text):
    """Return the public name that a piece of code begins with, or None: of ``sx.solve(problem)`` it
    is ``svmcvx.solve``.
    """
    name = text.partition("(")[0].removeprefix("svmcvx.").removeprefix("sx.")
    found = f"svmcvx.{name}"
    if name == text and name.isalnum() and name.islower() and name not in WORDS:
        return None
    return found if NAMES.get(found, "module") != "module" else None


def reference_to(text, docname):
    """Return the reference that a piece of code stands for: to a page, as of ``docs/scale.md`` in a
    docstring, or to a public name; or None.
    """
    page = re.fullmatch(r"docs/([\w/]+)\.md", text)
    if page:
        target = {
            "refdomain": "std",
            "reftype": "doc",
            "reftarget": f"/{page[1]}",
            "refexplicit": True,
        }
        return pending_xref("", refdoc=docname, refwarn=True, **target)
    name = OTHERS.get(text.partition("(")[0])
    if name is None and not docname.startswith("_api/"):  # docstrings have references of their own
        name = full_name(text)
    target = {"refdomain": "py", "reftype": "obj", "reftarget": name}
    return pending_xref("", refdoc=docname, **target) if name else None


def link_names(app, doctree):
    """Link the names of a page, a notebook or a docstring."""
    for literal in list(doctree.findall(nodes.literal)):
        reference = reference_to(literal.astext(), app.env.current_document.docname)
        if reference is not None and not isinstance(
            literal.parent, (nodes.reference, nodes.title, pending_xref)
        ):
            literal.replace_self(reference)
            reference += literal


def link_types(app, doctree):
    """Link the names of other packages in the types of parameters."""
    for kind in list(doctree.findall(nodes.classifier)):
        words = re.split(r"(\w+)", kind.astext())
        if any(word in OTHERS for word in words):
            kind.clear()
            for word in words:
                found = reference_to(word, "_api/") if word in OTHERS else None
                kind += nodes.Text(word) if found is None else found
                if found is not None:
                    found += nodes.inline(word, word)


def setup(app):
    """Link names as soon as a page is read."""
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", link_types)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
