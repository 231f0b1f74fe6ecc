"""The README's Python blocks run, and print what stands below them."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_readmes_examples_print_what_it_says(tmp_path, monkeypatch):
    text = README.read_text()
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", text, flags=re.DOTALL)
    assert len(blocks) >= 3
    namespace = {}
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(README), "exec"), namespace)  # noqa: S102 - our own README
        assert printed.getvalue() == expected
