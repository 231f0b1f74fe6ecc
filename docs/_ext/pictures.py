"""Pictures that are drawn at the build: of the home page, of the formulations, with their sliders,
and of the gallery.

They lie in ``docs/_pictures``, which is not kept in the repository, and are drawn again when their
code or the package has changed. ``{picture} NAME`` shows one in a page, ``{explorer} NAME`` a page
with sliders, ``{gallery}`` all scripts of ``docs/gallery`` with their pictures, ``{cards}`` a list
of links as cards.
"""

import ast
import hashlib
import runpy
import shutil
from functools import cache
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

log = logging.getLogger(__name__)
DOCS = Path(__file__).parents[1]
FOLDER = DOCS / "_pictures"
FORMULATIONS = DOCS / "formulation_pictures.py"
HOME = DOCS / "picture.py"
SCRIPTS = sorted((DOCS / "gallery").glob("*.py"))


@cache
def package_digest():
    """Return a number of all sources of the package."""
    sources = sorted((DOCS.parent / "svmcvx").rglob("*.py")) + sorted(
        (DOCS.parent / "svmcvx").rglob("*.html")
    )
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def changed(name, source):
    """Tell whether what a source draws is missing, or older than the source or the package; and
    remember it.
    """
    stamp, digest = (
        FOLDER / f"{name}.stamp",
        hashlib.sha256(source.read_bytes() + package_digest().encode()).hexdigest(),
    )
    if stamp.exists() and stamp.read_text() == digest:
        return None
    return lambda: stamp.write_text(digest)


def draw_formulations():
    """Draw the pictures of the formulations, and write their pages with sliders."""
    if (done := changed("formulations", FORMULATIONS)) is None:
        return
    names = runpy.run_path(str(FORMULATIONS), run_name="formulation_pictures")
    for name in names["HEADS"]:
        log.info("drawing %s", name)
        names["draw"](name, FOLDER)
    done()


def draw_home():
    """Draw the panels of the home page."""
    if (done := changed("home", HOME)) is not None:
        runpy.run_path(str(HOME))["draw_panels"](FOLDER)
        done()


def draw_gallery():
    """Run the scripts of the gallery and write their last figure."""
    mpl.use("agg")
    for script in SCRIPTS:
        if (done := changed(f"gallery_{script.stem}", script)) is None:
            continue
        log.info("drawing %s", script.stem)
        runpy.run_path(str(script))
        plt.gcf().savefig(
            FOLDER / f"gallery_{script.stem}.png", dpi=110, metadata={"Software": None}
        )
        plt.close("all")
        done()


def draw_all(app):
    """Draw what has changed."""
    FOLDER.mkdir(exist_ok=True)
    draw_home()
    draw_formulations()
    draw_gallery()


def copy_pages(app, failed):
    """Put the pages with sliders where their frames look for them."""
    if failed is None and app.builder.format == "html":
        target = Path(app.outdir) / "_static" / "explorers"
        target.mkdir(parents=True, exist_ok=True)
        for page in FOLDER.glob("*.html"):
            shutil.copy(page, target)


class Picture(SphinxDirective):
    """A picture of ``docs/_pictures``, or all panels ``NAME_1.png``, ``NAME_2.png``, …; its content
    is the alternative text.

    Panels stand side by side where the screen is wide enough, and below each other where it is not.
    """

    required_arguments = 1
    has_content = True

    def run(self):
        """Return the picture."""
        name = self.arguments[0]
        alternative = " ".join(self.content) or f"Loss and boundary of {name}"
        self.env.note_dependency(__file__)
        panels = sorted(FOLDER.glob(f"{name}_[0-9].png")) or [FOLDER / f"{name}.png"]
        images = [
            nodes.image(uri=f"/_pictures/{panel.name}", alt=alternative, classes=["picture"])
            for panel in panels
        ]
        return [nodes.container("", *images, classes=["panels"])]


class ExplorerFrame(SphinxDirective):
    """A page with sliders in a frame."""

    required_arguments = 1

    def run(self):
        """Return the frame, which adapts its height by ``_static/site.js``."""
        up = "../" * self.env.docname.count("/")
        page = f"{up}_static/explorers/{self.arguments[0]}.html"
        text = (
            f'<iframe class="explorer" src="{page}" loading="lazy" title="Sliders that move the'
            f' boundary"></iframe><p class="explorer-link"><a href="{page}">The same on a page of'
            " its own.</a></p>"
        )
        return [nodes.raw("", text, format="html")]


class Cards(SphinxDirective):
    """A list of links as cards: a word in backticks at the beginning of an entry is the name of its
    picture, and its first link is that of the whole card.
    """

    has_content = True

    def run(self):
        """Return the list with its pictures."""
        found = self.parse_content_to_nodes()
        for cards in found:
            cards["classes"].append("cards")
            for literal in list(cards.findall(nodes.literal)):
                uri = f"/_pictures/{literal.astext()}.png"
                literal.replace_self(nodes.image(uri=uri, alt="", classes=["picture"]))
        return found


class Gallery(SphinxDirective):
    """Thumbnails, and every script of the gallery: its title, its picture, its code."""

    def run(self):
        """Return the thumbnails and a section a script."""
        sections = [self.section(script) for script in SCRIPTS]
        thumbnails = nodes.bullet_list(classes=["cards"])
        for section in sections:
            picture = next(section.findall(nodes.image)).deepcopy()
            link = nodes.reference("", section[0].astext(), refid=section["ids"][0], internal=True)
            entry = nodes.paragraph("", "", picture, nodes.Text(" "), link)
            thumbnails += nodes.list_item("", entry)
        return [thumbnails, *sections]

    def section(self, script):
        """Return the section of a script."""
        text = script.read_text()
        docstring = ast.get_docstring(ast.parse(text))
        title, _, prose = docstring.partition("\n\n")
        code = text.split('"""', 2)[2].strip() + "\n"
        found = nodes.section(ids=[script.stem.replace("_", "-")], names=[script.stem])
        found += nodes.title(text=title.rstrip("."))
        if prose:
            found += nodes.paragraph(text=" ".join(prose.split()))
        found += nodes.image(
            uri=f"/_pictures/gallery_{script.stem}.png", alt=title, classes=["picture"]
        )
        found += nodes.literal_block(code, code, language="python")
        self.env.note_dependency(str(script))
        return found


def setup(app):
    """Draw before pages are read."""
    app.add_directive("picture", Picture)
    app.add_directive("explorer", ExplorerFrame)
    app.add_directive("gallery", Gallery)
    app.add_directive("cards", Cards)
    app.add_js_file("site.js")
    app.connect("builder-inited", draw_all)
    app.connect("build-finished", copy_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
