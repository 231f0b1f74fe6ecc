"""Sphinx builds the site from these settings: ``make docs``."""

import os
import sys
from pathlib import Path

import mathjax

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import other_packages

import svmcvx

project = "svmcvx"
author = "The svmcvx developers"
copyright = "2026, the svmcvx developers"
version = release = svmcvx.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
    "citations",
    "docstrings",
    "names",
    "offline",
    "pictures",
    "written_pages",
]
exclude_patterns = ["_build", "_ext", "_pictures", "gallery"]
highlight_language = "none"

# Markdown: mathematics between dollars, anchors as code hosts make them.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

intersphinx_mapping = other_packages.mapping(Path(__file__).parent / "_build" / "inventories")

# Notebooks are executed once a change.
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / "notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# Docstrings.
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # numpydoc's sections tell the types
autodoc_member_order = "bysource"
autosummary_generate = False
numpydoc_show_class_members = False
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "keys"
bibtex_reference_style = "keys"

# MathJax comes from a Python package, and draws without fonts: no page needs a network.
mathjax_path = "tex-svg.js"

html_theme = "pydata_sphinx_theme"
html_title = "svmcvx"
# Pages without pages below them.
html_sidebars = {
    path.stem: []
    for path in Path(__file__).parent.glob("*.md")
    if path.stem not in ("api", "formulations")
}
html_sidebars |= {f"_root/{page}": [] for page in ("benchmarks", "changelog", "contributing")}
html_static_path = [
    "_static",
    str(Path(mathjax.__file__).parent / "static" / "mathjax" / "es5" / mathjax_path),
]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
# Of a published site: where the sources lie, as in https://host/owner/name, and where the site
# does; see ``make site``.
REPOSITORY, ADDRESS = (
    os.environ.get(name, "").rstrip("/") for name in ("SVMCVX_REPOSITORY", "SVMCVX_SITE")
)
html_theme_options = {
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "logo": {"text": f"svmcvx {version}"},
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
}
html_context: dict[str, str] = {}
if REPOSITORY:
    html_theme_options["icon_links"] = [
        {"name": "Source code", "url": REPOSITORY, "icon": "fa-solid fa-code-branch"}
    ]
    html_theme_options["use_edit_page_button"] = True
    # Pages that are written at the build are edited where their text lies.
    html_context["edit_page_url_template"] = "{{ edit_address(file_name) }}"
if ADDRESS:
    html_baseurl = f"{ADDRESS}/{version}/"
    html_theme_options["switcher"] = {
        "json_url": f"{ADDRESS}/versions.json",
        "version_match": version,
    }
    html_theme_options["check_switcher"] = False
    html_theme_options["navbar_end"] = ["version-switcher", "theme-switcher", "navbar-icon-links"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
