"""The order in which the settings of a grid are solved."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

__all__ = ["serpentine"]


def serpentine(settings: Sequence[Sequence[float]]) -> list[list[int]]:
    """Return slices of the positions of settings, each in an order in which neighbours differ in
    one small step.
    """
    order = sorted(range(len(settings)), key=lambda k: (*settings[k][2:], *settings[k][:2]))
    slices = []
    for _, members in groupby(order, key=lambda k: tuple(settings[k][2:])):
        one: list[int] = []
        for turn, (_, line) in enumerate(groupby(members, key=lambda k: settings[k][0])):
            one += list(line) if turn % 2 == 0 else list(line)[::-1]
        slices.append(one)
    return slices
