"""Some rows of each stored table are computed again, and compared with the CSV file in
docs/results; the record beside it has to be its own.

    python -m campaigns.rerun_results [--data-dir FOLDER] [TABLE ...]
    python -m campaigns.rerun_results --sizes
    python -m campaigns.rerun_results --trials FILE

Rows of tables that are means over all sizes (conic-table1, 2 and 4) would cost the whole table.
Their trials are in docs/results/trials, and some of these are computed again. Seconds and counts
that depend on the version of a solver are not compared. `--sizes` prints the table of the status
page: how much of each table there is, what it took, and how much of it is proved. `--trials` writes
the trials of a table from what `python -m benchmarks.papers TABLE --json FILE` wrote.
"""

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path

import pandas as pd

from benchmarks.papers import reproduce, reproducible
from benchmarks.papers.conic import HALF, METHODS, TESTED, VALUES, flipped, synthetic

RESULTS = Path(__file__).parents[1] / "docs" / "results"
TRIALS = RESULTS / "trials"
# What to compute of each table: a set of it with the options of the stored table.
PARTS = {
    "psvm-table1": {"sets": ["Heart"]},
    "psvm-table1-baselines": {"sets": ["Heart"]},
    "psvm-table3": {"sets": ["Glass"]},
    "psvm-figure2": {},
    "odm-table2": {"sets": ["hepatitis"]},
    "odm-table2-clean1": {"sets": ["clean1"], "repeats": 10},
    "odm-table3": {"sets": ["hepatitis"]},
    "odm-table3-clean1": {"sets": ["clean1"], "repeats": 5},
    "odm-table4": {"sets": ["ijcnn1"], "every": 5, "repeats": 10},
    "odm-table4-w8a": {"sets": ["w8a"], "every": 5, "repeats": 6},
    "odm-figure2": {"sets": ["cod-rna"]},
    "m3svm-table1": {"sets": ["Glass"], "repeats": 10},
    "m3svm-table1-large": {"sets": ["ORL"], "every": 10, "repeats": 1},
    "m3svm-table1-usps": {"sets": ["USPS, 1854"], "every": 2, "repeats": 1},
    "m3svm-table1-folds": {"sets": ["Glass"]},
    "m3svm-figure3": {"sets": ["Glass"], "repeats": 10},
    "m3svm-figure4": {"sets": ["Glass"], "repeats": 10},
    "conic-table1": {"n": 100, "p": 3, "repeat": 0},
    "conic-table3": {"repeats": 20, "quick": True},
    "conic-table4": {"n": 100, "p": 3, "repeat": 0},
    "l0-table51": {},
    "l0-table52": {},
    "l0-table53": {},
}
# Tables whose means are checked, and the table that has their trials.
TRIALS_OF = {f"conic-table{k}": f"conic-table{k if k > 2 else 1}" for k in (1, 2, 3, 4)}
# What computes a trial again, and the entries of its cell.
COMPUTED = {"conic-table1": (synthetic, ("sigma", "outliers")), "conic-table4": (flipped, ("tau",))}
# What is kept of a trial: its cell, what the tables and pages are made of, and the decimals of
# each.
CELL = ("dataset", "n", "p", "sigma", "outliers", "tau", "repeat")
KEPT = {
    **{
        f"{method}_{what}": 5
        for method in (*METHODS, "bayes")
        for what in ("error", "error_last", "validation")
    },
    **{f"{method}_chosen": 6 for method in METHODS},
    **{f"{method}_cpu": 3 for method in METHODS},
}
# Columns that say where a number stands, and those that are compared with it.
KEYS = ("dataset", "method", "p", "C", "tau", "lam", "train_size", "m", "label_noise", "noise")
COMPARED = (
    "published",
    "as_written",
    "as_released",
    "as_summed",
    "as_written_train",
    "as_written_nsv",
    "as_written_accuracy",
)
# Tables whose numbers are seconds.
TIMED = ("odm-figure2",)


def differences(table: str, data_dir: str | None) -> tuple[int, list[str]]:
    """Return how many numbers were compared, and those that differ."""
    stored = pd.read_csv(RESULTS / f"{table.replace('-', '_')}.csv")
    computed = reproduce(
        re.sub("-(large|w8a|clean1|usps)$", "", table), data_dir=data_dir, **PARTS[table]
    )
    if not computed.complete:  # which reproduce makes of Ctrl-C
        raise KeyboardInterrupt
    found = computed.frame
    keys = [key for key in KEYS if key in stored and key in found]
    columns = [column for column in COMPARED if column in stored and column in found]
    if table in TIMED:
        columns.remove("as_written")
    # A written table has its own digits.
    as_text = {
        key: lambda values: values.map(
            lambda value: f"{value:g}" if isinstance(value, float) else str(value)
        )
        for key in keys
    }
    both = found.assign(**{key: rule(found[key]) for key, rule in as_text.items()}).merge(
        stored.assign(**{key: rule(stored[key]) for key, rule in as_text.items()}),
        on=keys,
        suffixes=("", "_stored"),
    )
    if len(both) != len(found):
        return len(both), [f"{table}: {len(found)} rows, of which {len(both)} are stored"]
    wrong = [
        f"{table}: {column} of {dict(row[keys])} is {row[column]}, stored is"
        f" {row[f'{column}_stored']}"
        for column in columns
        for _, row in both.iterrows()
        if not (
            abs(row[column] - row[f"{column}_stored"]) < 5e-4
            or (pd.isna(row[column]) and pd.isna(row[f"{column}_stored"]))
        )
    ]
    return len(both) * len(columns), wrong


def trials_differences(table: str) -> tuple[int, list[str]]:
    """Return how many numbers of trials were computed again, and those that differ from the stored
    ones.
    """
    compute, varied = COMPUTED[table]
    stored = pd.read_csv(TRIALS / f"{table.replace('-', '_')}.csv")
    count, wrong = 0, []
    for _, line in stored[
        (stored[list(PARTS[table])] == pd.Series(PARTS[table])).all(axis=1)
    ].iterrows():
        cell = PARTS[table] | {name: line[name] for name in varied}
        row = compute(tested=TESTED, values=VALUES, **cell)
        for name in (
            f"{method}_{what}" for method in METHODS for what in ("error", "validation", "chosen")
        ):
            count += 1
            if abs(row[name] - line[name]) > 5e-4:
                wrong.append(f"{table}: {name} of {cell} is {row[name]}, stored is {line[name]}")
    return count, wrong


def write_trials(path: Path) -> Path:
    """Write the trials of a table from the JSON file of everything that is known; return the
    file.
    """
    found = json.loads(path.read_text())
    frame = pd.DataFrame(found["study"]["rows"])
    frame = frame[[name for name in (*CELL, *KEPT) if name in frame]].round(KEPT)
    written = TRIALS / f"{found['table'].replace('-', '_')}.csv"
    frame.sort_values([name for name in CELL if name in frame]).to_csv(written, index=False)
    return written


def trial_means_faults(table: str) -> list[str]:
    """Return the means of a table that are not those of its trials."""
    trials = pd.read_csv(TRIALS / f"{TRIALS_OF[table].replace('-', '_')}.csv")
    stored = pd.read_csv(RESULTS / f"{table.replace('-', '_')}.csv")
    # Seconds of Table 2 in place of per cent; its means are over the kinds of outliers of the
    # paper.
    seconds = table == "conic-table2"
    what, unit, error = ("cpu", 1.0, 1.1e-3) if seconds else ("error", 100.0, 5.1e-3)
    if seconds:
        trials = trials[trials["outliers"] != HALF]
    keys = [name for name in CELL if name in trials and name in stored]
    faults = []
    for _, line in stored.iterrows():
        own = trials[(trials[keys] == line[keys]).all(axis=1)]
        if line.get("dataset") == "Average":  # the splits of all sets
            own = trials[trials["tau"] == line["tau"]]
        mean = unit * own[f"{line['method']}_{what}"].mean()
        if not abs(mean - line["as_written"]) <= error:
            faults.append(
                f"{table}: {dict(line[[*keys, 'method', 'as_written']])}, its trials have {mean}"
            )
    return faults


def record_faults(path: Path) -> list[str]:
    """Return what a record says otherwise than the table beside it."""
    record = json.loads(path.read_text())
    table = path.with_suffix(".csv").read_bytes()
    faults = []
    if hashlib.sha256(table).hexdigest() != record["sha256_of_csv"]:
        faults.append(f"{path.name}: its table has another digest")
    if record["table"] not in reproducible():
        faults.append(f"{path.name}: there is no table {record['table']}")
    if not record["complete"]:
        faults.append(f"{path.name}: its table is not complete")
    return faults


def sizes() -> str:
    """Return a Markdown table of size, hours, certified solves and guaranteed accuracies of the
    stored tables.

    The last column tells how many accuracies have an interval of what every optimal machine scores,
    and for how many it is one number.
    """
    lines = [
        "| table | computed | hours | solves certified | accuracies enclosed (one number) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for record_path in sorted(RESULTS.glob("*.json")):
        frame = pd.read_csv(record_path.with_suffix(".csv"))
        record = json.loads(record_path.read_text())
        whats = [
            what
            for what in ("as_written", "as_summed", "as_released")
            if f"{what}_exact_lower" in frame
        ]
        there = sum(int(frame[what].notna().sum()) for what in whats)
        enclosed = sum(int(frame[f"{what}_exact_lower"].notna().sum()) for what in whats)
        proved = sum(
            int((frame[f"{what}_exact_lower"] == frame[f"{what}_exact_upper"]).sum())
            for what in whats
        )
        options = (
            ", ".join(f"{name} {_said(value)}" for name, value in record["options"].items())
            or "in full"
        )
        share = record["certified"] / record["solves"] if record["solves"] else 1.0
        cells = [
            options,
            f"{record['seconds'] / 3600:.2f}",
            f"{record['certified']} of {record['solves']} ({100 * share:.2f} %)",
        ]
        cells.append(f"{enclosed} ({proved}) of {there}" if there else "—")
        lines.append(f"| `{record_path.stem}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _said(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", choices=[[], *PARTS], metavar="TABLE")
    parser.add_argument("--data-dir")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--trials", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.trials:
        print(write_trials(options.trials))
        return 0
    if options.sizes:
        print(sizes())
        return 0
    wrong = [fault for path in sorted(RESULTS.glob("*.json")) for fault in record_faults(path)]
    wrong += [fault for table in TRIALS_OF for fault in trial_means_faults(table)]
    for table in options.tables or PARTS:
        count, found = (
            trials_differences(table) if table in COMPUTED else differences(table, options.data_dir)
        )
        print(f"{table}: {count} numbers, {len(found)} differ", flush=True)
        wrong += found
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
