"""The entries as solvers of benchopt."""

import time

from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion

from benchmarks.benchopt_svm.benchmark_utils.entries import READY


class Solver(BaseSolver):
    name = "entry"
    parameters = {"entry": list(READY)}
    requirements = ["pip::svmcvx"]
    # benchopt's budget is the place in the list of budgets of an entry: a tolerance, a number of
    # epochs.
    sampling_strategy = "iteration"
    stopping_criterion = SufficientProgressCriterion(eps=1e-12, patience=3, strategy="iteration")

    def skip(self, task):
        why = READY[self.entry].refusal(task)
        return bool(why), why or None

    def set_objective(self, task):
        self.given = READY[self.entry].prepare(task)

    def warm_up(self):
        self.run_once()

    def get_next(self, stop_val):
        return stop_val + 1

    def run(self, n_iter):
        chosen = READY[self.entry]
        started = time.process_time()
        self.model = chosen.solve(self.given, chosen.budgets[min(n_iter, len(chosen.budgets) - 1)])
        self.seconds = time.process_time() - started

    def get_result(self):
        return {"model": self.model, "seconds": self.seconds}
