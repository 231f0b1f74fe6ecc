"""Names are those of the glossary: its terms are in the code, and words outside of the field's
vocabulary are not.
"""

import ast
import re
from functools import cache
from pathlib import Path

import svmcvx

ROOT = Path(svmcvx.__file__).parent
REPOSITORY = ROOT.parent
PAGE = (REPOSITORY / "docs" / "glossary.md").read_text()


def rows(heading):
    """The cells of the table below a heading of the page."""
    lines = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0].splitlines()
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    return table[2:]


# Names that stand for terms of the glossary, or for none.
BANNED = set(
    re.findall(
        r"\w+",
        """
    awaited may_be_abandoned to_the_end unless_left_behind pressed parted told nearly offer lose
    attain unattained ceiling recentre surpasses_trivial expanded penalised spare_of thinned
    CandidSCIP Refused rowless written_whole blas_held_to_one threads_allowed each_part
    unless_abandoned judge gains respond
    """,
    )
)


def definitions(path):
    """(name, kind) of what a module defines for others: functions, classes, their arguments, fields
    and methods.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            yield node.name, "class"
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    yield item.target.id, "field"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            attribute = any(ast.unparse(one).endswith("property") for one in node.decorator_list)
            yield node.name, "field" if attribute else "function"
            arguments = node.args
            for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                yield one.arg, "argument"


@cache
def defined():
    """What each module defines for others."""
    return {
        path.relative_to(ROOT).as_posix(): {
            one for one in definitions(path) if not one[0].startswith("_")
        }
        for path in sorted(ROOT.rglob("*.py"))
    }


# Properties of an intercept.
ADJECTIVES = {"penalised"}


def words_in_use(name):
    """Banned words of which a definition consists."""
    return [
        word
        for word in BANNED
        for one, kind in defined()[name]
        if one == word and not (word in ADJECTIVES and kind != "function")
    ]


def test_banned_words_do_not_occur():
    assert [(name, word) for name in defined() for word in words_in_use(name)] == []


def test_terms_of_the_glossary_are_in_the_code():
    names = {name for found in defined().values() for name, _ in found}
    folders = {
        part for path in ROOT.rglob("*.py") for part in path.relative_to(ROOT).with_suffix("").parts
    }
    texts = "".join(path.read_text() for path in ROOT.rglob("*.py"))
    terms = rows("Terms")
    assert len(terms) >= 40
    for term, meaning, code in terms:
        assert meaning, term
        for word in re.findall(r"`([^`]+)`", code):
            last = word.split(".")[-1].split("=")[0]
            known = last in names or last in folders or re.search(rf"\b{re.escape(last)}\b", texts)
            assert known, f"{term}: {word} is not in the code"


def test_a_banned_word_is_found(tmp_path):
    (tmp_path / "module.py").write_text(
        "class Refused:\n    told: int\n    def f(self, pressed): ...\n"
    )
    assert {name for name, _ in definitions(tmp_path / "module.py")} & BANNED == {
        "Refused",
        "told",
        "pressed",
    }
