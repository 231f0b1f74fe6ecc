"""The folders of the package and the imports between them, of one checkout or of two side by side.

``python -m campaigns.house . ../before`` prints a table with a line per room of ``svmcvx``: its
files, its lines, and the rooms that it imports with the number of import statements.
``--draw FILE.png`` draws the same: a bar per room, and a matrix of imports, from the lowest floor
on.
"""

import argparse
import ast
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

from tests.test_architecture import FLOOR


class House(NamedTuple):
    """Files and lines of each room, and import statements from room to room."""

    files: Counter
    lines: Counter
    imports: dict


def measure(checkout):
    """Return the rooms of a checkout."""
    root = Path(checkout) / "svmcvx"
    house = House(Counter(), Counter(), defaultdict(Counter))
    for path in sorted(root.rglob("*.py")):
        room = path.relative_to(root).parts[0].removesuffix(".py")
        text = path.read_text()
        house.files[room] += 1
        house.lines[room] += text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("svmcvx"):
                parts = node.module.split(".")
                others = parts[1:2] or [alias.name for alias in node.names]
                house.imports[room].update(other for other in others if other != room)
    return house


def by_floor(house):
    """Return the rooms from the lowest floor on; those without a floor stand last."""
    return sorted(house.files, key=lambda room: (FLOOR.get(room, len(FLOOR)), room))


def show(house):
    """Print a line per room."""
    print(f"{'room':16}{'files':>6}{'lines':>8}  imports")
    for room in reversed(by_floor(house)):
        others = ", ".join(f"{other} {count}" for other, count in house.imports[room].most_common())
        print(f"{room:16}{house.files[room]:6}{house.lines[room]:8}  {others}")
    arrows = sum(len(others) for others in house.imports.values())
    statements = sum(sum(others.values()) for others in house.imports.values())
    print(f"{'all':16}{house.files.total():6}{house.lines.total():8}  ", end="")
    print(f"{arrows} arrows between {len(house.files)} rooms, {statements} import statements\n")


def draw(houses, path):
    """Draw lines and imports of each checkout, one column each."""
    import matplotlib.pyplot as plt
    import numpy as np

    figure, axes = plt.subplots(2, len(houses), figsize=(9 * len(houses), 14), squeeze=False)
    for (name, house), (bars, matrix) in zip(houses.items(), axes.T, strict=True):
        rooms = by_floor(house)
        bars.barh(rooms, [house.lines[room] for room in rooms])
        bars.set(title=f"{name}: {house.lines.total():,} lines", xlabel="lines")
        counts = [[house.imports[room][other] for other in rooms] for room in rooms]
        matrix.imshow(np.log1p(counts), cmap="Blues")
        matrix.set_xticks(range(len(rooms)), rooms, rotation=90)
        matrix.set_yticks(range(len(rooms)), rooms)
        matrix.set(xlabel="imported", ylabel="importing")
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs="+")
    parser.add_argument("--draw", metavar="FILE")
    given = parser.parse_args()
    measured = {checkout: measure(checkout) for checkout in given.checkouts}
    for checkout, house in measured.items():
        print(checkout)
        show(house)
    if given.draw:
        draw(measured, given.draw)
