"""Solutions whose model and records are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar

from svmcvx.solution.answer import Solution

__all__ = ["Deferred", "DeferredField", "DeferredSolution"]


class Deferred:
    """A value that is computed when it is asked for."""

    __slots__ = ("compute",)

    def __init__(self, compute: Callable[[], Any]) -> None:
        self.compute = compute


class DeferredField:
    """A field that may be given as a :class:`Deferred`; it is computed once."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return None
        value = instance.__dict__[self.name]
        if isinstance(value, Deferred):
            value = instance.__dict__[self.name] = instance._kept(self.name, value.compute())
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value


class DeferredSolution(Solution):
    """A solution whose fields below may be given as a :class:`Deferred`. It is pickled with their
    values, as `stored_as`.
    """

    stored_as: ClassVar[type[Solution]] = Solution
    model = DeferredField()
    attempts = DeferredField()
    dual = DeferredField()
    trace = DeferredField()
    hyperparameters = DeferredField()
    terms = DeferredField()
    evidence = DeferredField()
    data = DeferredField()
    optimal_intercepts = DeferredField()

    @classmethod
    def _kept(cls, name: str, value: Any) -> Any:
        return value if isinstance(value, Deferred) else super()._kept(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.stored_as, tuple(getattr(self, field.name) for field in fields(self))
