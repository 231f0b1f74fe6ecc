"""Metadata of a release: project links, and the README with absolute links, as the package index
shows it. ``SVMCVX_REPOSITORY`` and ``SVMCVX_SITE`` are the addresses, as for ``make site``.
"""

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).parents[2]
RELATIVE = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)]+\))")


class AddressHook(MetadataHookInterface):
    """Sets ``readme`` and ``urls``; without an address the links stay relative."""

    def update(self, metadata):
        """Fill in the dynamic fields."""
        repository, site = (
            os.environ.get(name, "").rstrip("/") for name in ("SVMCVX_REPOSITORY", "SVMCVX_SITE")
        )
        urls = {"Documentation": site} if site else {}
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        if repository:
            place = rf"{repository}/{{}}/v{metadata['version']}"

            def absolute(link):
                picture, words, path = link.groups()
                return f"{picture}{words}{place.format('raw' if picture else 'blob')}/{path}"

            text = RELATIVE.sub(absolute, text)
            urls["Source"] = repository
            urls["Changelog"] = f"{repository}/blob/main/CHANGELOG.md"
        metadata["urls"] = urls
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
