"""Twenty splits of the data sets of Table 1 of [Sun], whose protocol has one.

    python -m benchmarks.papers.psvm_splits FILE.csv [STORE.sqlite]

The file gets the rows of a study of the pSVM as written and of other classifiers.
"""

from __future__ import annotations

import sys
from typing import Any

from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.papers.psvm import COSTS, EXPONENTS, FOLDS, SEED, SETS
from svmcvx import PSVMClassifier
from svmcvx.experiments import Split, Study, study

OTHERS = {
    "naive Bayes": GaussianNB(),
    "nearest neighbours": KNeighborsClassifier(3),
    "LDA": LinearDiscriminantAnalysis(),
    "random forest": RandomForestClassifier(random_state=0),
    "gradient boosting": GradientBoostingClassifier(random_state=0),
    "decision tree": DecisionTreeClassifier(random_state=0),
    "AdaBoost": AdaBoostClassifier(random_state=0),
}


def splits(**options: Any) -> Study:
    """Do the study, with further arguments of :func:`svmcvx.study`."""
    exponents = {
        f"p = {label:g}": PSVMClassifier(p=p, kernel="rbf") for label, p in EXPONENTS.items()
    }
    how: dict[str, Any] = {"repeats": 20, "seed": SEED, "cv": FOLDS, "scale_by": "all"}
    return study(
        exponents | OTHERS,
        [source for source, _ in SETS.values()],
        split={source: Split(share, stratify=False) for source, share in SETS.values()},
        tune={"C": COSTS},
        **(how | options),
    )


if __name__ == "__main__":
    target, *store = sys.argv[1:]
    splits(store=store[0] if store else None, n_jobs=-1, progress=True).frame.to_csv(
        target, index=False
    )
