"""Which settings of a grid stand next to each other."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["neighbours"]


def neighbours(candidates: Sequence[Mapping[str, Any]], place: int) -> list[int]:
    """Return the positions of the settings that differ from one in a single number, which is the
    next larger or smaller there is.
    """
    own = candidates[place]
    found = []
    for name, value in own.items():
        if not _is_number(value):
            continue
        line = [
            k
            for k, other in enumerate(candidates)
            if other.keys() == own.keys()
            and _is_number(other[name])
            and all(key == name or _same(other[key], own[key]) for key in own)
        ]
        below = [k for k in line if candidates[k][name] < value]
        above = [k for k in line if candidates[k][name] > value]
        found += [max(below, key=lambda k: candidates[k][name])] if below else []
        found += [min(above, key=lambda k: candidates[k][name])] if above else []
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _same(one: Any, other: Any) -> bool:
    # Values may be arrays or estimators, which know no equality.
    return (
        one is other
        or (_is_number(one) and _is_number(other) and one == other)
        or repr(one) == repr(other)
    )
