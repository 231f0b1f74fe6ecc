"""A page that would load anything from a network is a warning, and warnings are errors: the site
works from a disk.
"""

import re
from pathlib import Path

from sphinx.util import logging

log = logging.getLogger(__name__)
LOADED = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^\"'\s>]+"
)


def look_at_pages(app, failed):
    """Warn of every address that a page loads from elsewhere."""
    if failed:
        return
    for page in sorted(Path(app.outdir).rglob("*.html")):
        for tag in LOADED.findall(page.read_text()):
            log.warning("%s loads from a network: %s", page.name, tag)


def setup(app):
    """Look once all pages are written."""
    app.connect("build-finished", look_at_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
