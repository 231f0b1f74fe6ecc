"""Names of other packages link to their documentation. Sphinx reads where they are from
inventories, which are written here, so that no build needs a network.
"""

import zlib

# By package: the address of its documentation, where a name ($) is in it, and the names.
PACKAGES = {
    "scikit-learn": (
        "https://scikit-learn.org/stable/",
        "modules/generated/$.html#$",
        [
            *("sklearn.svm.SVC", "sklearn.svm.NuSVC", "sklearn.svm.LinearSVC"),
            "sklearn.linear_model.LogisticRegression",
            "sklearn.model_selection.GridSearchCV",
            "sklearn.multiclass.OneVsOneClassifier",
            "sklearn.exceptions.ConvergenceWarning",
        ],
    ),
    "cvxpy": ("https://www.cvxpy.org/", "api_reference/cvxpy.problems.html", ["cvxpy.Problem"]),
    "numpy": ("https://numpy.org/doc/stable/", "reference/generated/$.html#$", ["numpy.ndarray"]),
    "scipy": (
        "https://docs.scipy.org/doc/scipy/",
        "reference/generated/$.html#$",
        ["scipy.sparse.csr_array", "scipy.stats.binomtest"],
    ),
    "pandas": ("https://pandas.pydata.org/docs/", "reference/api/$.html#$", ["pandas.DataFrame"]),
}
# The full name of each name, with and without its module.
NAMES = {name: name for _, _, names in PACKAGES.values() for name in names}
NAMES |= {name.rpartition(".")[2]: name for name in NAMES if name != "cvxpy.Problem"}
HEADER = """# Sphinx inventory version 2
# Project: {}
# Version:
# The remainder of this file is compressed using zlib.
"""


def mapping(folder):
    """Write the inventories into a folder; return Sphinx's ``intersphinx_mapping`` of them."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for package, (address, place, names) in PACKAGES.items():
        lines = [f"{name} py:class 1 {place.replace('$', name)} -\n" for name in names]
        path = folder / f"{package}.inv"
        path.write_bytes(HEADER.format(package).encode() + zlib.compress("".join(lines).encode()))
        found[package] = (address, str(path))
    return found
