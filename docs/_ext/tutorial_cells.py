"""The code of a notebook as a reader wants it: without the sizes of the tests, and with assertions
in a cell that runs unseen.
"""

import ast


def read_cell(source, *, small):
    """Return the code to show, with its sizes in small or in full, and the assertions that follow
    it unseen.
    """
    while choice := _choice_of_size(source):
        start, end = _span(source, choice)
        chosen = ast.get_source_segment(source, choice.body if small else choice.orelse)
        source = source[:start] + chosen + source[end:]
    lines, unseen = source.splitlines(), []
    for node in reversed(ast.parse(source).body):
        first, last, asserts = node.lineno - 1, node.end_lineno, isinstance(node, ast.Assert)
        # The statements about sizes: SMALL = "SVMCVX_SMALL" in os.environ, and its import.
        sized = lines[first].startswith("SMALL =")
        sized |= lines[first] == "import os" and source.count("os.") == source.count("os.environ")
        while asserts and first and lines[first - 1].startswith("#"):
            first -= 1
        if asserts or (sized and "SMALL =" in source):
            unseen[:0] = lines[first:last] if asserts else []
            del lines[first:last]
    return "\n".join(lines).strip("\n"), "\n".join(unseen)


def _choice_of_size(source):
    """Return the first ``a if SMALL else b``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.IfExp) and getattr(node.test, "id", "") == "SMALL":
            return node
    return None


def _span(source, node):
    """Return where the text of a node begins and ends."""
    lines = source.splitlines(keepends=True)

    def place(line, column):
        before = lines[line - 1].encode()[:column].decode()
        return sum(map(len, lines[: line - 1])) + len(before)

    return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)
