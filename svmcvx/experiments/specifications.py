"""Models written as text: ``psvm:p=1,psvm:p=1.5,C=10``."""

from __future__ import annotations

import ast
from typing import Any

from svmcvx.arguments import what_was_meant
from svmcvx.catalogue import CATALOGUE, Estimator
from svmcvx.errors import DataError, did_you_mean

# The estimators by their names on the command line.
MODELS: dict[str, Estimator] = {
    entry.estimator.command: entry.estimator
    for entry in CATALOGUE.values()
    if entry.estimator is not None
}


def value_of(text: str) -> Any:
    """Return a number, True, False or None for its text, and any other text as it is."""
    if text == "inf":
        return float(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def parse_models(text: str, **common: Any) -> list[tuple[str, Any]]:
    """Return labelled estimators for a comma-separated list of models.

    Parameters
    ----------
    text : str
        Each model is a name of :data:`MODELS` (``zero_one`` is ``zero-one``), optionally followed
        by ``:`` and ``key=value`` settings; further settings of the same model follow after ``,``
        or ``:``, as in ``psvm:p=1,psvm:p=1.5,C=10``.
    **common
        Settings for every model that has them, unless the text says otherwise; None is passed over.

    Returns
    -------
    list of (str, estimator)
        Labels are unique.

    Raises
    ------
    DataError
        If a model or a setting is unknown, or a setting is given twice.
    """
    return [_build(name, settings, common) for name, settings in read_models(text)]


def read_models(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return names and settings of the models in a text, without importing them."""
    models: list[tuple[str, dict[str, Any]]] = []
    for word in (part.strip() for part in text.split(",")):
        if not word:
            raise DataError(
                f"models has an empty entry in {text!r}; write for example psvm:p=1,psvm:p=2"
            )
        head, *settings = word.split(":")
        head = head if "=" in head else head.replace("_", "-")
        if "=" in head:
            if not models:
                raise DataError(
                    f"models names no model before the setting {head!r}; begin with one of"
                    f" {', '.join(MODELS)}"
                )
            settings = [head, *settings]
        else:
            if head not in MODELS:
                raise DataError(
                    f"models names {head!r}{did_you_mean(head, MODELS)}; known are"
                    f" {', '.join(MODELS)}"
                )
            models.append((head, {}))
        for setting in settings:
            key, equals, value = setting.partition("=")
            if not equals or not key:
                raise DataError(f"{setting!r} in models is not of the form key=value")
            name, settings_so_far = models[-1]
            if key.strip() in settings_so_far:
                raise DataError(
                    f"models sets {key.strip()} of {name} twice in {text!r}; two models are written"
                    f" {name}:{key.strip()}=…,{name}:{key.strip()}=…"
                )
            settings_so_far[key.strip()] = value_of(value.strip())
    return models


def _build(name: str, settings: dict[str, Any], common: dict[str, Any]) -> tuple[str, Any]:
    cls = MODELS[name].load()
    known = set(cls().get_params())
    # Old names work for this release.
    unknown = [key for key in settings if key not in known]
    if unknown:
        meant = what_was_meant(unknown[0], sorted(known)).partition("; there are")[0]
        raise DataError(
            f"{name} has no setting {', '.join(map(repr, unknown))}{meant}; it has"
            f" {', '.join(sorted(known))}"
        )
    shared = {key: value for key, value in common.items() if key in known and value is not None}
    label = (
        name
        if not settings
        else f"{name}({', '.join(f'{key}={value}' for key, value in settings.items())})"
    )
    return label, cls(**{**shared, **settings})
