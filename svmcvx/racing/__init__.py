"""A fair race for solvers: each in its own process, every model judged by its certified gap."""

from __future__ import annotations

from svmcvx.racing.entries import entries
from svmcvx.racing.entry import Entry
from svmcvx.racing.outcome import Lap, Note, Race
from svmcvx.racing.running import race
from svmcvx.racing.tasks import Referee, Task

__all__ = ["Entry", "Lap", "Note", "Race", "Referee", "Task", "entries", "race"]
