"""A fair race for solvers: each in its own process, every model judged by its certified gap."""

from __future__ import annotations

from benchmarks.referee.racing.entries import entries
from benchmarks.referee.racing.entry import Entry
from benchmarks.referee.racing.outcome import Lap, Note, Race
from benchmarks.referee.racing.running import race
from benchmarks.referee.racing.tasks import Referee, Task

__all__ = ["Entry", "Lap", "Note", "Race", "Referee", "Task", "entries", "race"]
