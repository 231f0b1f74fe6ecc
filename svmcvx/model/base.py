"""What every model has."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.display import ShortRepr, html_block, html_fields, listed, quantity
from svmcvx.model.storage import write_model_file

__all__ = ["Model", "frozen"]

Floats: TypeAlias = NDArray[np.float64]

# Labels that HTML lists.
MOST_CLASSES = 20


def frozen(array: Any) -> NDArray[Any]:
    """Return a read-only contiguous copy."""
    copy = np.array(array, order="C", copy=True)
    copy.flags.writeable = False
    return copy


class Model(ShortRepr, ABC):
    """A trained classifier.

    Attributes
    ----------
    classes : ndarray
        Sorted labels.
    support : ndarray of int
        Rows of the training data that the model rests on.
    """

    classes: NDArray[Any]
    support: NDArray[np.intp]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join([*self._described().values(), self._deciding()])})"
        )

    def _repr_html_(self) -> str:
        fields = [
            *self._described().items(),
            ("Classes", listed(self.classes.tolist(), most=MOST_CLASSES)),
        ]
        return html_block(type(self).__name__, html_fields(fields), *self._html_tables())

    def _deciding(self) -> str:
        return f"classes {listed(map(repr, self.classes.tolist()))}"

    def _described(self) -> dict[str, str]:
        """Fields that are shown in addition to the classes, by their labels."""
        return {"Support": quantity(self.n_support, "support vector")}

    def _html_tables(self) -> list[str]:
        """Tables of a model's numbers; none by default."""
        return []

    @abstractmethod
    def decision_function(self, X: Any) -> Floats:
        """Return the scores of the rows of `X`."""

    @abstractmethod
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row of `X`."""

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return scalars (for JSON) and arrays that describe the model."""

    @classmethod
    @abstractmethod
    def _from_state(cls, scalars: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Inverse of :meth:`_state`."""

    @property
    def n_support(self) -> int:
        """Number of training observations that the model rests on."""
        return int(self.support.size)

    def without_support(self) -> Self:
        """Return what predicts the same and is sent to other processes: a linear model leaves out
        the rows it rests on.
        """
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, atomically; :func:`load_model` reads it.

        Parameters
        ----------
        path : path-like
            File to write, by convention ``*.npz``; the name is taken as it is.

        Raises
        ------
        DataError
            If the model holds what cannot be stored without pickle (a callable kernel, labels that
            are neither numbers nor strings), or the file cannot be written.
        """
        scalars, arrays = self._state()
        write_model_file(
            path, type(self).__name__, self.classes, np.asarray(self.support), scalars, arrays
        )
