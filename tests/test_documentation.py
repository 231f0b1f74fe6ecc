"""README and pages: their examples print what stands below them, their links lead somewhere, their
facts are those of the package.
"""

import ast
import contextlib
import doctest
import inspect
import io
import re
import runpy
import tomllib
import zlib
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import jupytext
import pytest
import yaml
from markdown_it import MarkdownIt

import svmcvx as sx
from svmcvx.catalogue import CATALOGUE
from tests.generated import PUBLIC

ROOT = Path(__file__).parent.parent
WRITTEN_AT_BUILD = ("_api", "_build", "_notebooks", "_pictures", "_root")
PAGES = sorted(
    path
    for path in (
        *ROOT.glob("*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("notebooks/*.md"),
        *ROOT.glob("docs/**/*.md"),
    )
    if not {part for part in path.parts if part in WRITTEN_AT_BUILD}
)
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.py"))
MARKDOWN = MarkdownIt("commonmark").enable("table")


def name(path):
    return path.relative_to(ROOT).as_posix()


COMMAND = re.compile(r"(tests/[a-z0-9_/]+\.py)`? -k (?:\"([^\"]+)\"|(\w+))")


def test_commands_on_pages_select_tests():
    found = [
        (name(page), file, word)
        for page in PAGES
        for file, several, one in COMMAND.findall(page.read_text())
        for word in re.split(" or ", several or one)
    ]
    assert len(found) > 20
    pages = [name(page) for page in SHOWN]
    for page, file, word in found:
        functions = re.findall(r"def (test_\w+)", (ROOT / file).read_text())
        names = functions + (pages if file == "tests/test_documentation.py" else [])
        assert any(word in one for one in names), f"{page}: {file} -k {word} selects nothing"


# Examples

# A Python block with the text that it prints below it; blocks of a page share their names.
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", flags=re.DOTALL)
SHOWN = [
    path for path in PAGES if any(expected for _, expected in EXAMPLE.findall(path.read_text()))
]
SHOWN.remove(ROOT / "docs" / "add_formulation.md")  # tests/formulations/test_extension.py runs it


FRACTION = re.compile(r"(-?\d+\.\d+(?:e[+-]?\d+)?)")
LOOSE = re.compile(r"(gap|intercept)[^,]*$")


def same(printed, expected):
    """Tell whether words and whole numbers are the same, and fractions nearly; of a text that tells
    seconds, the words alone.

    What is proved is held to five digits. Widths of intervals and intercepts, on which the order of
    sums tells, are held to a hundredth.
    """
    if "seconds" in expected.lower():
        ours, theirs = (
            re.sub(r"\d[\d.e+-]*", "#", " ".join(text.split())) for text in (printed, expected)
        )
        return ours == theirs
    ours, theirs = FRACTION.split(printed), FRACTION.split(expected)
    return ours[::2] == theirs[::2] and all(
        float(a) == pytest.approx(float(b), rel=1e-2 if "e-" in b or LOOSE.search(word) else 1e-5)
        for a, b, word in zip(ours[1::2], theirs[1::2], theirs[::2], strict=False)
    )


def test_examples_are_held_to_what_does_not_change():
    assert same("gap 0.217474, 149 rows\n", "gap 0.217555, 149 rows\n")
    assert same("upper 29.60061, gap 3.1e-07\n", "upper 29.60063, gap 3.11e-07\n")
    assert not same("accuracy 0.989455\n", "accuracy 0.987698\n")
    assert not same("gap 0.217474, upper 29.5\n", "gap 0.217474, upper 29.6\n")
    assert not same("gap 0.217474, 149 rows\n", "gap 0.227555, 149 rows\n")
    assert not same("gap 0.217474, 149 rows\n", "gap 0.217474, 150 rows\n")
    assert not same("True\n", "False\n")
    assert same("status optimal   seconds 0.25\n", "status optimal seconds  0.1\n")
    assert not same("status optimal seconds 0.25\n", "status inaccurate seconds 0.25\n")


def test_there_are_examples():
    pages = {"README.md", "docs/getting_started.md", "docs/errata.md"}
    assert pages <= {name(path) for path in SHOWN}


@pytest.mark.parametrize("page", SHOWN, ids=name)
def test_the_examples_of_a_page_print_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": page.stem}
    for code, expected in EXAMPLE.findall(page.read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name(page), "exec"), namespace)  # noqa: S102 - our own pages
        assert same(printed.getvalue(), expected), printed.getvalue()


def docstrings_with_examples():
    """Those of modules and classes, as doctest finds them, and those of public functions, which it
    does not where they are decorated.
    """
    finder, found = doctest.DocTestFinder(exclude_empty=True), {}
    for path in sorted((ROOT / "svmcvx").rglob("*.py")):
        if ">>> " in path.read_text() and path.name != "torch.py":
            parts = path.relative_to(ROOT).with_suffix("").parts
            module = import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
            found |= {test.name: test for test in finder.find(module)}
    for room in PUBLIC:
        for public in import_module(room).__all__:
            value = getattr(import_module(room), public)
            if inspect.isfunction(value):
                found |= {
                    test.name: test
                    for test in finder.find(
                        value, f"{value.__module__}.{value.__qualname__}", globs={}
                    )
                }
    return [test for test in found.values() if test.examples]


EXAMPLES = docstrings_with_examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda test: test.name)
def test_the_examples_of_a_docstring(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = []
    doctest.DocTestRunner().run(example, out=told.append)
    assert told == []


def test_every_builder_and_solver_has_an_example():
    names = {test.name.rpartition(".")[2] for test in EXAMPLES}
    for entry in CATALOGUE.values():
        assert {builder.name for builder in entry.builders} <= names
        assert entry.fast is None or entry.fast.name in names
        assert entry.estimator is None or entry.estimator.name in names


# Links


def tokens(text):
    for token in MARKDOWN.parse(text):
        yield token
        yield from token.children or ()


def links(text):
    """Return the addresses of links and pictures."""
    found = [token.attrs.get("href") or token.attrs.get("src") for token in tokens(text)]
    return [str(address) for address in found if address and not re.match(r"[a-z]+:", str(address))]


@cache
def anchors(page):
    """Return the anchors of a page's headings, as code hosts make them."""
    parsed, slugs = MARKDOWN.parse(page.read_text()), set()
    for opening, content in pairwise(parsed):
        if opening.type == "heading_open":
            text = "".join(
                child.content for child in content.children if child.type in ("text", "code_inline")
            )
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            slugs.add(slug if slug not in slugs else f"{slug}-1")
    return slugs


def broken(page, text):
    for address in links(text):
        path, _, anchor = address.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{name(page)}: {address}"
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target)):
            yield f"{name(page)}: {address} (no such heading)"


def test_links_and_anchors_of_pages_lead_somewhere():
    assert [address for page in PAGES for address in broken(page, page.read_text())] == []


def test_links_of_notebooks_lead_somewhere():
    cells = [(path, cell.source) for path in NOTEBOOKS for cell in jupytext.read(path).cells]
    texts = [(path, source) for path, source in cells if not source.startswith("%")]
    assert [address for path, text in texts for address in broken(path, text)] == []


def test_a_broken_link_is_found():
    page = ROOT / "docs" / "index.md"
    assert list(
        broken(page, "[a](nowhere.md) [b](certificates.md#nothing) [c](certificates.md#the-gap)")
    ) == ["docs/index.md: nowhere.md", "docs/index.md: certificates.md#nothing (no such heading)"]


def test_links_to_other_packages_name_what_they_have(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    others = import_module("other_packages")
    for name in others.NAMES.values():
        module, _, own = name.rpartition(".")
        assert hasattr(import_module(module), own)
    address, path = others.mapping(tmp_path)["scikit-learn"]
    listed = zlib.decompress(Path(path).read_bytes().split(b"zlib.\n", 1)[1]).decode()
    svc = "sklearn.svm.SVC"
    assert f"{svc} py:class 1 modules/generated/{svc}.html#{svc} -\n" in listed
    assert address == "https://scikit-learn.org/stable/"


def test_every_page_is_in_the_contents():
    contents = "\n".join(
        body
        for page in PAGES
        for body in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), flags=re.DOTALL)
    )
    listed = set(re.findall(r"^(?:\w+ <)?(\w[\w/]*)>?$", contents, flags=re.MULTILINE))
    listed.add("index")
    pages = {
        path.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for path in PAGES
        if ROOT / "docs" in path.parents
    }
    assert pages == listed - {page for page in listed if page.startswith(WRITTEN_AT_BUILD)}


# Facts


def test_extras_named_in_pages_and_code_are_those_of_the_package():
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )
    files = [*PAGES, *NOTEBOOKS, ROOT / "Makefile", *sorted((ROOT / "svmcvx").rglob("*.py"))]
    for path in files:
        named = re.findall(r"(?:svmcvx|'\.|\*\.whl)\[([a-z,]+)\]", path.read_text())
        assert {extra for group in named for extra in group.split(",")} <= extras, path
    listed = re.findall(
        r"^\| (.*?) \|", (ROOT / "docs" / "getting_started.md").read_text(), flags=re.MULTILINE
    )
    described = {extra for cell in listed for extra in re.findall(r"`([a-z]+)`", cell)}
    assert described == extras - {"test", "docs", "lint", "bench"}


def test_the_citation_file_is_whole_and_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    needed = "cff-version message title type authors version date-released license"
    assert set(needed.split()) <= set(citation)
    assert citation["authors"] == [{"name": "The svmcvx developers"}]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["license"] == project["license"]
    headings = re.findall(
        r"^## \[([\d.]+)\] - ([\w-]+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE
    )
    (newest, when), *_ = headings
    assert sx.__version__ == (f"{newest}.dev0" if when == "Unreleased" else newest)
    released = next(heading for heading in headings if heading[1] != "Unreleased")
    assert released == (citation["version"], str(citation["date-released"]))


# Claims and the tests that hold them

HOLDER = re.compile(r"`(test_\w+\.py)::(\w+)`")
CLAIMING = [ROOT / "docs" / "certificates.md", ROOT / "docs" / "limits.md"]


def holders_missing(text):
    """The tests that a text names as holding a claim, and that do not exist."""
    files = {}
    for path in ROOT.glob("tests/**/test_*.py"):
        files[path.name] = files.get(path.name, "") + path.read_text()
    return [
        f"{file}::{test}"
        for file, test in HOLDER.findall(text)
        if not re.search(rf"^def test_{test}\(", files.get(file, ""), flags=re.MULTILINE)
    ]


def rows_held_by_nothing(text):
    """Rows of tables with a last column "held by" that name no test in it."""
    table, bare = False, []
    for line in text.splitlines():
        if not line.startswith("|"):
            table = False
        elif line.endswith("| held by |"):
            table = True
        elif table and not set(line) <= set("|- ") and not HOLDER.search(line.rsplit("|", 2)[1]):
            bare.append(line)
    return bare


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_tests_that_hold_the_claims_of_a_page_exist(page):
    text = page.read_text()
    assert not holders_missing(text)
    assert not rows_held_by_nothing(text)


@pytest.mark.parametrize("page", CLAIMING, ids=name)
def test_pages_of_claims_name_what_holds_them(page):
    text = page.read_text()
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    _, _, folded = text.partition("<summary>The tests of each section</summary>")
    sections = re.findall(r"^\| ([A-Z].*?) \| .*`test_", folded, flags=re.MULTILINE)
    assert len(HOLDER.findall(folded)) >= 5
    assert set(sections) <= set(headings)
    if page.name == "certificates.md":
        assert sections == headings
        steps = re.findall(r"^(\d)\. ", text, flags=re.MULTILINE)
        (held,) = re.findall(r"^\| How it is made \|(.*)$", folded, flags=re.MULTILINE)
        assert sorted(re.findall(r"\b(\d)\b(?=[^`]*: )", held)) == steps == list("1234567")


def test_a_claim_that_nothing_holds_is_found():
    assert holders_missing("`test_documentation.py::there_are_examples`") == []
    assert holders_missing(
        "`test_documentation.py::nothing` `test_nowhere.py::there_are_examples`"
    ) == ["test_documentation.py::nothing", "test_nowhere.py::there_are_examples"]
    table = (
        "| claim | held by |\n| --- | --- |\n| one | `test_a.py::b` |\n| `test_a.py::b` |"
        " nobody |\n"
    )
    assert rows_held_by_nothing(table) == ["| `test_a.py::b` | nobody |"]


# The gallery


DOCS = ROOT / "docs"
SCRIPTS = sorted((DOCS / "gallery").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_of_the_gallery_has_a_title_and_is_short(script):
    text = script.read_text()
    assert ast.get_docstring(ast.parse(text)).partition("\n")[0].endswith(".")
    assert text.count("\n") <= 30


def test_every_formulation_begins_with_its_picture_on_its_page():
    names = runpy.run_path(str(DOCS / "formulation_pictures.py"), run_name="formulation_pictures")[
        "HEADS"
    ]
    assert set(names) == set(CATALOGUE)
    pages = [path.read_text() for path in (DOCS / "formulations").glob("*.md")]
    for name, head in names.items():
        ((before, _, after),) = [
            page.partition(f"```{{picture}} {name}\n```\n")
            for page in pages
            if f"```{{picture}} {name}\n" in page
        ]
        # A page has one or more formulations, each under its heading.
        assert before.rpartition("\n#")[2].count("\n") <= 6
        assert (f"```{{explorer}} {name}\n```" in after) == (head.values is not None)
        assert (
            after.index("```python")
            < after.index("**When to use it.**")
            < after.index("**When not.**")
        )
        assert after.index("**When not.**") < after.index("## Statement")
