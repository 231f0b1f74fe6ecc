"""Models written as text: ``psvm:p=1,psvm:p=1.5,C=10``."""

from __future__ import annotations

import ast
from typing import Any

from svmcvx.catalogue import CATALOGUE, Estimator
from svmcvx.data import check_choice
from svmcvx.errors import DataError

# The estimators by their names on the command line.
MODELS: dict[str, Estimator] = {
    entry.estimator.command: entry.estimator
    for entry in CATALOGUE.values()
    if entry.estimator is not None
}
# Models of scikit-learn for comparisons.
BASELINES: dict[str, Estimator] = {
    "svc": Estimator("SVC", "sklearn.svm", "svc"),
    "linearsvc": Estimator("LinearSVC", "sklearn.svm", "linearsvc"),
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
        Each model is a name of :data:`MODELS` (``zero_one`` is ``zero-one``) or ``svc`` or
        ``linearsvc``, optionally followed by ``:`` and ``key=value`` settings; further settings of
        the same model follow after ``,`` or ``:``, as in ``psvm:p=1,psvm:p=1.5,C=10``.
    **common
        Settings for every model that has them, unless the text says otherwise; None is passed over,
        and so is ``tol`` for models of scikit-learn.

    Returns
    -------
    list of (str, estimator)
        The text of each model, and the model.

    Raises
    ------
    DataError
        If a model or a setting is unknown, or a setting is given twice.

    Examples
    --------
    >>> from svmcvx.experiments import parse_models
    >>> parse_models("psvm:p=1.5,odm")
    [('psvm(p=1.5)', PSVMClassifier(p=1.5)), ('odm', ODMClassifier())]
    """
    read: list[tuple[str, dict[str, Any]]] = []
    for word in (part.strip() for part in text.split(",")):
        if not word:
            raise DataError(
                f"models has an empty entry in {text!r}; write for example psvm:p=1,psvm:p=2"
            )
        head, *settings = word.split(":")
        if "=" in head:
            settings = [head, *settings]
        else:
            name = check_choice(head.replace("_", "-"), "a name in models", (*MODELS, *BASELINES))
            read.append((name, {}))
        if not read:
            raise DataError(
                f"models names no model before the setting {head!r}; begin with one of"
                f" {', '.join(MODELS)}"
            )
        name, found = read[-1]
        for setting in settings:
            key, _, value = (part.strip() for part in setting.partition("="))
            if not key or "=" not in setting:
                raise DataError(f"{setting!r} in models is not of the form key=value")
            if key in found:
                raise DataError(
                    f"models sets {key} of {name} twice in {text!r}; two models are written"
                    f" {name}:{key}=…,{name}:{key}=…"
                )
            found[key] = value_of(value)
    models = []
    for name, own in read:
        cls = (MODELS | BASELINES)[name].load()
        given = {key: value for key, value in common.items() if value is not None}
        if name in BASELINES:
            # Linear unless a kernel is named, the same at each call, and no gap for a tolerance.
            given = {"kernel": "linear", "random_state": 0, **given, "tol": cls().tol}
        known = cls().get_params()
        shared = {key: value for key, value in given.items() if key in known}
        said = ", ".join(f"{key}={value}" for key, value in own.items())
        models.append((f"{name}({said})" if said else name, cls(**{**shared, **own})))
    return models
