"""Arrays that do not belong to a proof of the formulation, are missing, have other shapes, or hold
no numbers.
"""

import numpy as np

from .corpus import arrays, put, without

N = 24
ONES = np.ones(N)
OTHERS = "has the arrays"


def two_classes(file):
    file.y = np.where(file.y == 2, 1, file.y)


def a_row_less(file):
    file.X, file.y = file.X[:-1], file.y[:-1]


def of_25_rows(file):
    file.arrays |= {"model.support": np.arange(N + 1), "model.dual_coef": np.ones(N + 1)}


def of_doubles(file):
    file.arrays["model.support"] = file.arrays["model.support"].astype(float)


def twice(file):
    file.arrays["model.support"][1] = file.arrays["model.support"][0]


FORGERIES = [
    ("an array of no family", "psvm", arrays(hyperparameters=ONES), "no array"),
    ("a hyper-parameter as an array", "psvm", arrays(hyperparameters__C=7.5), "no array"),
    ("multipliers of another machine", "psvm", arrays(dual__theta=ONES), OTHERS),
    ("the γ of a problem without one", "psvm", arrays(statement__gamma=ONES), OTHERS),
    ("the M of a problem without one", "psvm", arrays(statement__M=ONES), OTHERS),
    ("no model", "psvm", without("model.coef", "model.intercept"), OTHERS),
    ("a model without an intercept", "psvm", without("model.intercept"), OTHERS),
    ("coefficients of a machine with a kernel", "psvm rbf", arrays(model__coef=[1, 1.0]), OTHERS),
    (
        "coefficients and a support",
        "psvm",
        arrays(model__support=[0], model__dual_coef=[1.0]),
        OTHERS,
    ),
    ("a dual point without γ", "conic", without("dual.gamma"), OTHERS),
    ("a dual point without λ", "conic kappa", without("dual.lam"), OTHERS),
    ("a spread of two kinds", "conic", arrays(model__V_coef=np.ones((N, 1))), OTHERS),
    ("bytes and multipliers", "coded", arrays(dual__alpha=np.zeros(N)), OTHERS),
    ("a coefficient more", "psvm", arrays(model__coef=np.ones(3)), r"shape \(3,\) where \(2\)"),
    ("an intercept in a list", "psvm", arrays(model__intercept=np.ones(1)), "shape"),
    ("multipliers in two columns", "psvm", arrays(dual__alpha=np.ones((N, 2))), "shape"),
    ("multipliers of one row less", "psvm", arrays(dual__alpha=np.ones(N - 1)), "shape"),
    ("multipliers of one class less", "m3svm", arrays(dual__alpha=np.zeros((N, 2))), "shape"),
    ("a number as weights", "psvm", arrays(statement__weight=1.0), "shape"),
    ("flows of two columns", "m3svm", arrays(dual__flow=np.zeros((3, 2))), "shape"),
    ("a spread of 25 columns", "conic", arrays(model__V=np.zeros((3, 25))), "many columns: 25"),
    (
        "a spread over rows",
        "conic rbf",
        arrays(model__V_coef=np.zeros((N, 25))),
        "many columns: 25",
    ),
    ("a row of the data less", "psvm", a_row_less, "they have 23 rows"),
    ("a class that no row has", "weston_watkins", two_classes, "no row has its label 2"),
    ("a support of 25 rows", "psvm rbf", of_25_rows, "names 25 rows"),
    ("a support of doubles", "psvm rbf", of_doubles, "dtype"),
    ("negative weights", "psvm weights", put("statement.weight", 3, -1.0), "not be negative"),
    ("weights that are no numbers", "psvm weights", put("statement.weight", 3, np.nan), "finite"),
    ("weights of zero alone", "psvm weights", put("statement.weight", ..., 0.0), "sum above 0"),
    ("multipliers that are no numbers", "psvm", put("dual.alpha", 5, np.nan), "finite"),
    ("an infinite intercept", "psvm", arrays(model__intercept=np.inf), "finite"),
    ("a row that there is not", "psvm rbf", put("model.support", 0, 1000), "rows of the data"),
    ("a negative row of the support", "psvm rbf", put("model.support", 0, -1), "rows of the data"),
    ("a row of the support twice", "psvm rbf", twice, "twice"),
    ("bytes without the numbers between", "coded", without("dual.between"), OTHERS),
]
