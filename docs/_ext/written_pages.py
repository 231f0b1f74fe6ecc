"""Pages that are written at each build: the API reference from the public names, the gallery from
the notebooks, and what lies outside ``docs/``.

None is kept in the repository: ``docs/_api``, ``docs/_notebooks``, ``docs/_root``. Links of pages
into the rest of the repository, which are right on a code host, are turned into links to these
pages.
"""

import inspect
import json
import os
import re
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import jupytext
import nbformat
from citations import CITED
from tutorial_cells import read_cell

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
NAMES = ROOT / "tests" / "public_names.json"

GALLERY = ROOT / "notebooks" / "README.md"
# Where files and folders outside docs/ have their page.
PAGES = {
    ROOT / "benchmarks" / "README.md": DOCS / "_root" / "benchmarks.md",
    ROOT / "CONTRIBUTING.md": DOCS / "_root" / "contributing.md",
    ROOT / "CHANGELOG.md": DOCS / "_root" / "changelog.md",
    ROOT / "README.md": DOCS / "index.md",
    GALLERY: DOCS / "_root" / "notebooks.md",
    GALLERY.parent: DOCS / "_root" / "notebooks.md",
    **{
        twin: DOCS / "_notebooks" / f"{twin.stem}.ipynb"
        for twin in (ROOT / "notebooks").glob("*.py")
    },
}
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")

ROOMS = {
    "svmcvx": "the package",
    "svmcvx.fast": "specialised solvers",
    "svmcvx.estimators": "classifiers",
    "svmcvx.experiments": "comparison, selection, studies",
    "svmcvx.datasets": "data sets",
    "svmcvx.kernels": "kernels",
    "svmcvx.plot": "pictures",
    "svmcvx.theory": "bounds of the papers",
    "svmcvx.catalogue": "the record of each formulation",
}


def write(path, text):
    """Write a file unless it holds this text already, so that Sphinx reads again only what
    changed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def with_links_of_the_site(text, source, page):
    """Point the relative links of a file's text to the pages of the site, as seen from where the
    text is shown.
    """

    def address(match):
        target = Path(os.path.normpath(source.parent / match[1]))
        return f"]({os.path.relpath(PAGES.get(target, target), page.parent)}"

    return LINK.sub(address, text)


def heading(title):
    """Return a title, underlined."""
    return f"{title}\n{'=' * len(title)}\n\n"


def own_page(name, members):
    """Return the page of a class or function; of a class with the methods and properties that it
    has from this package.
    """
    room, _, short = name.rpartition(".")
    value = getattr(import_module(room), short)
    if not inspect.isclass(value):
        kind = "function" if callable(value) else "data"
        return f"{heading(short)}.. currentmodule:: {room}\n\n.. auto{kind}:: {short}\n"
    shown = [
        member
        for member, shape in members.items()
        if member != "class"
        and (shape.startswith("(") or isinstance(inspect.getattr_static(value, member), property))
    ]
    options = f"   :members: {', '.join(shown)}\n" if shown else ""
    return f"{heading(short)}.. currentmodule:: {room}\n\n.. autoclass:: {short}\n{options}"


def home(room, name):
    """Return the room in which a name has its page: the package, where it has it too."""
    shared = getattr(import_module("svmcvx"), name, None) is getattr(import_module(room), name)
    return "svmcvx" if shared else room


def groups(room, names):
    """Sort the names of a room by what they are; modules have pages of their own."""
    found = {"Functions": [], "Classes": [], "Errors": [], "Data": []}
    for name in names:
        value = getattr(import_module(room), name)
        if inspect.isclass(value):
            found["Errors" if issubclass(value, Exception) else "Classes"].append(name)
        elif not inspect.ismodule(value):
            found["Functions" if callable(value) else "Data"].append(name)
    return {title: group for title, group in found.items() if group}


def write_reference():
    """Write a page a room, with a table of its names, and a page a name."""
    described = json.loads(NAMES.read_text())
    folder, written = DOCS / "_api", set()
    for room, subtitle in ROOMS.items():
        short = [name.rpartition(".")[2] for name in described if name.rpartition(".")[0] == room]
        text, pages = heading(f"{room}: {subtitle}"), []
        for title, group in groups(room, short).items():
            lines = "".join(f"   ~{home(room, name)}.{name}\n" for name in group)
            text += f"{title}\n{'-' * len(title)}\n\n.. autosummary::\n\n{lines}\n"
            pages += [name for name in group if home(room, name) == room]
        if pages:
            text += ".. toctree::\n   :hidden:\n\n" + "".join(
                f"   {room}.{name}\n" for name in pages
            )
        write(folder / f"{room}.rst", text)
        for name in pages:
            write(
                folder / f"{room}.{name}.rst",
                own_page(f"{room}.{name}", described[f"{room}.{name}"]),
            )
        written |= {f"{room}.rst", *(f"{room}.{name}.rst" for name in pages)}
    for stale in folder.glob("*.rst"):
        if stale.name not in written:
            stale.unlink()


def run_as():
    """Return what every notebook says of its run: in small, or in full and at which state of the
    sources.
    """
    if "SVMCVX_SMALL" in os.environ:
        return (
            "```{warning}\nThis copy of the page was computed in small: fewer rows, fewer values,"
            " fewer repetitions. Its text speaks of the full run, so that numbers differ. `make"
            " site` runs it in full.\n```"
        )
    return (
        "```{note}\nRun in full, at version"
        f" {import_module('svmcvx').__version__}{at_commit()}.\n```"
    )


def at_commit():
    """Return the commit of the sources, or nothing where they are no clone."""
    git = shutil.which("git")
    if git is None:
        return ""
    # Changes that are not committed count as another state.
    told = subprocess.run(
        [git, "describe", "--always", "--dirty", "--abbrev=10"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return f", commit `{told.stdout.strip()}`" if told.returncode == 0 else ""


def write_notebooks():
    """Write the notebooks' text twins as notebooks, with a line on how they were run below the
    title.
    """
    twins = [(source, page) for source, page in PAGES.items() if page.suffix == ".ipynb"]
    for source, page in twins:
        notebook, cells = jupytext.read(source), []
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = CITED.sub(
                    r"{cite}`\1`", with_links_of_the_site(cell.source, source, page)
                )
                cells.append(cell)
                continue
            shown, unseen = read_cell(cell.source, small="SVMCVX_SMALL" in os.environ)
            cells += [{**cell, "source": shown}] if shown else []
            hidden = {"metadata": {"tags": ["remove-cell"]}, "source": unseen}
            cells += [{**cell, **hidden}] if unseen else []
        notebook.cells = [
            nbformat.from_dict({**cell, "id": f"cell-{number}"})
            for number, cell in enumerate(cells)
        ]
        title, _, rest = notebook.cells[0].source.partition("\n")
        notebook.cells[0].source = f"{title}\n\n{run_as()}\n{rest}"
        write(page, jupytext.writes(notebook, fmt="ipynb"))
    for stale in (DOCS / "_notebooks").glob("*.ipynb"):
        if stale not in {page for _, page in twins}:
            stale.unlink()


def write_pages(app):
    """Write all of them."""
    write_reference()
    write_notebooks()
    for source, page in PAGES.items():
        if page.parent == DOCS / "_root" and source.is_file():
            contents = (
                "\n```{toctree}\n:hidden:\n:glob:\n\n../_notebooks/*\n```\n"
                if source == GALLERY
                else ""
            )
            write(page, with_links_of_the_site(source.read_text(), source, page) + contents)


def link_page(app, name, text):
    """Point the links of a page in ``docs/`` to pages of the site."""
    page = Path(app.env.doc2path(name))
    if page.suffix == ".md" and page.parent.name != "_root":
        text[0] = with_links_of_the_site(text[0], page, page)


def edit_address(app, name, template, context, doctree):
    """Give the theme the address at which the text of a page is edited."""
    sources = {
        page.relative_to(DOCS).as_posix(): source
        for source, page in PAGES.items()
        if page != DOCS / "index.md"
    }

    def address(file_name):
        source = sources.get(file_name, DOCS / file_name)
        repository = os.environ["SVMCVX_REPOSITORY"].rstrip("/")
        return f"{repository}/edit/main/{source.relative_to(ROOT).as_posix()}"

    context["edit_address"] = address


def setup(app):
    """Write the pages before Sphinx looks for sources."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", link_page)
    app.connect("html-page-context", edit_address)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
