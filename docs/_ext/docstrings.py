"""Lists of parameters that go on in the next line of a raw docstring, behind a backslash, are put
together before numpydoc reads them.
"""

import re
import textwrap

CONTINUED = re.compile(r" *(?<!\\)\\\n *")


def join_lines(app, what, name, obj, options, lines):
    """Join continued lines; one that begins at the margin has kept the others from being moved
    there.
    """
    text = "\n".join(lines)
    if CONTINUED.search(text):
        first, _, rest = CONTINUED.sub(" ", text).partition("\n")
        lines[:] = [first, *textwrap.dedent(rest).split("\n")]


def setup(app):
    """Join before numpydoc, whose priority is 500."""
    app.connect("autodoc-process-docstring", join_lines, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
