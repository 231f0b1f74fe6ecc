"""Tables and pictures of a race over the thirty instances of ``race_instances.txt``, and whether
benchopt's run of the same agrees.

    svmcvx race --instances benchmarks/race_instances.txt --clock processor --time 1 --repeats 3
    --store race.sqlite --json race.json --html race.html benchopt run benchmarks/benchopt_svm -n 12
    --timeout 20 --no-html --no-plot python benchmarks/race.py race.json [--pictures FOLDER]
    [--benchopt FILE.parquet ...]

Prints Markdown: how often each solver was first to a gap, and for each task the first three to
1e-3, 1e-6 and 1e-9 with ours beside them. With --benchopt: for each instance, solver and budget
that both have run, the two certified gaps and the two times. The gaps are those of two runs of the
same call, so they have to agree where the solver is deterministic; the exit status is 1 if a gap
above 1e-9 differs by more than a hundredth of itself.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.referee.library import find
from benchmarks.referee.racing import Lap, Note, Race
from benchmarks.referee.racing.entries import READY

SHOWN = ("1e-03", "1e-06", "1e-09")
# Gaps below this one are sums of rounding errors.
NOISE = 1e-9


def read(path):
    """The race of a JSON file."""
    content = json.loads(Path(path).read_text())
    laps = [
        Lap(**{key: math.inf if value is None else value for key, value in lap.items()})
        for lap in content["laps"]
    ]
    rules = {name: content[name] for name in ("time", "repeats", "threads", "clock", "complete")}
    return Race(tuple(laps), tuple(Note(**note) for note in content["notes"]), **rules)


def table(heads, rows):
    """Lines of a Markdown table."""
    return "\n".join(
        f"| {' | '.join(map(str, row))} |" for row in (heads, ["---"] * len(heads), *rows)
    )


def milliseconds(seconds):
    return f"{1e3 * seconds:.2g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def first_three(times, gap):
    """The three solvers that were first to a gap, with milliseconds."""
    reached = times[gap][np.isfinite(times[gap])].sort_values()
    return (
        ", ".join(f"{name} {milliseconds(value)}" for name, value in reached.head(3).items())
        or "nobody"
    )


def ours(times, gap):
    """Our milliseconds to a gap, and how many times those of the best other solver they are."""
    if "svmcvx" not in times.index or not np.isfinite(times.loc["svmcvx", gap]):
        return "—"
    own, best = times.loc["svmcvx", gap], times.drop("svmcvx")[gap].min()
    return milliseconds(own) + (f" ({own / best:.2g})" if np.isfinite(best) else "")


def show(race):
    wins = race.wins().sort_values(list(race.wins().columns), ascending=False)
    ran = race.to_frame().groupby("solver")["task"].nunique()
    print(
        table(
            ["solver", "tasks", *wins.columns],
            [[name, ran[name], *row] for name, row in wins.iterrows()],
        )
    )
    times = race.times()
    rows = []
    for task in dict.fromkeys(times.index.get_level_values("task")):
        own = times.loc[task]
        rows.append(
            [task, *(cell for gap in SHOWN for cell in (first_three(own, gap), ours(own, gap)))]
        )
    heads = [
        "task",
        *(cell for gap in SHOWN for cell in (f"first to {gap} (ms)", "ours (÷ best other)")),
    ]
    print("\n" + table(heads, rows))


def draw(race, folder):
    import svmcvx as sx

    for gap in (1e-3, 1e-6, 1e-9):
        ax = sx.plot.performance_profile(race.profile(gap), title=f"certified gap {gap:.0e}")
        ax.figure.savefig(folder / f"race_profile_{gap:.0e}.png", dpi=110, bbox_inches="tight")


def agreement(race, files):
    """Compare with the results of benchopt; return whether the gaps agree."""
    frame = pd.concat([pd.read_parquet(file) for file in files])
    laps = {(lap.task, lap.solver, lap.budget): lap for lap in race.laps if lap.repeat == 0}
    gaps, ratios, walls, worse = [], [], [], []
    for _, row in frame.iterrows():
        name, instance = row["p_solver_entry"], find(row["p_dataset_instance"])
        budgets = READY[name].budgets
        budget = str(budgets[min(int(row["stop_val"]), len(budgets) - 1)])
        lap = laps.get((str(instance), name, budget))
        if lap is None or not math.isfinite(lap.gap):
            continue
        difference = abs(lap.gap - row["objective_value"]) / max(
            lap.gap, row["objective_value"], NOISE
        )
        gaps.append(difference)
        ratios.append(row["objective_processor_seconds"] / lap.seconds)
        walls.append(row["time"] / lap.seconds)
        if difference > 0.01 and max(lap.gap, row["objective_value"]) > NOISE:
            worse.append((str(instance), name, budget, lap.gap, row["objective_value"]))
    print(
        f"\n{len(gaps)} models of both: gaps equal to a hundredth in"
        f" {sum(one <= 0.01 for one in gaps)}"
    )
    for clock, found in (("of the processor", ratios), ("by the wall clock", walls)):
        print(
            f"benchopt's seconds {clock} ÷ ours of the processor: quartiles"
            f" {np.quantile(found, [0.25, 0.5, 0.75]).round(2)}"
        )
    for line in worse:
        print(*line)
    return not worse


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("json")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--benchopt", nargs="+", default=[])
    options = parser.parse_args()
    race = read(options.json)
    show(race)
    if options.pictures is not None:
        draw(race, options.pictures)
    sys.exit(0 if not options.benchopt or agreement(race, options.benchopt) else 1)


if __name__ == "__main__":
    main()
