"""Methods of the papers that the solvers of this package replace: they show what was published, and
stand here to be compared with.
"""

from benchmarks.papers.exhibits.adam import m3svm_by_adam
from benchmarks.papers.exhibits.biases import bias_by_rule, problem_with_bias, with_bias
from benchmarks.papers.exhibits.random_pairs import RandomPairs
from benchmarks.papers.exhibits.svrg import odm_by_svrg, odml_by_svrg

__all__ = [
    "RandomPairs",
    "bias_by_rule",
    "m3svm_by_adam",
    "odm_by_svrg",
    "odml_by_svrg",
    "problem_with_bias",
    "with_bias",
]
