"""Models: what a solver returns and a user predicts with.

A model is immutable, knows the labels it was trained on, and is stored without pickle: one ``.npz``
file whose member ``header`` is a JSON text (format, version, type, scalars, kernel, digest of the
arrays).
"""

from __future__ import annotations

import os

from svmcvx.errors import DataError
from svmcvx.model.base import Model, frozen
from svmcvx.model.binary import BinaryModel, KernelModel, LinearModel
from svmcvx.model.several import MulticlassModel, OneVsModel
from svmcvx.model.storage import read_model_file

__all__ = [
    "BinaryModel",
    "KernelModel",
    "LinearModel",
    "Model",
    "MulticlassModel",
    "OneVsModel",
    "frozen",
    "load_model",
]

_TYPES: dict[str, type[Model]] = {
    cls.__name__: cls for cls in (LinearModel, KernelModel, MulticlassModel, OneVsModel)
}


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model written by :meth:`Model.save`.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    Model
        Predicts the same numbers as the model that was saved, to the last bit.

    Raises
    ------
    DataError
        If the file does not exist, is not a model file, was written by a newer format, or is
        corrupted.
    """
    kind, scalars, arrays = read_model_file(path)
    if kind not in _TYPES:
        raise DataError(
            f"{path} does not describe a model that this svmcvx knows; upgrade svmcvx or save the"
            " model again"
        )
    return _TYPES[kind]._from_state(scalars, arrays)
