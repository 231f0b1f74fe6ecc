"""Data with label noise of the experiments with the conic loss [CepedaGomezHan], Appendix B."""

import numpy as np

from svmcvx.data import check_number, check_whole
from svmcvx.synthetic import LinearRule, random_stream


def label_noise_rule(p, *, seed):
    """Return the hyperplane of the labels of :func:`label_noise_data` before they are flipped."""
    drawn = random_stream(seed, 0).uniform(-1.0, 1.0, check_whole(p, "p", 1) + 1)
    return LinearRule(drawn[1:], float(drawn[0]))


def label_noise_data(n, p, *, tau, seed, sample=0):
    """Draw features uniform on [−1, 1], and labels of a hyperplane, flipped with probability τ."""
    n, p = check_whole(n, "n", 1), check_whole(p, "p", 1)
    tau = check_number(tau, "tau", "[0, 0.5]")
    rule = label_noise_rule(p, seed=seed)
    rng = random_stream(seed, 1, check_whole(sample, "sample", 0))
    X = rng.uniform(-1.0, 1.0, (n, p))
    y = rule.predict(X)
    return X, np.where(rng.random(n) < tau, -y, y)
