"""All published instances of Brooks' hard-margin loss, which is the l0-norm hinge with a free
intercept, beside the published bounds.

    python benchmarks/hard_margin_loss.py --data DIR --out FILE.csv [--limit 60] [--proofs FOLDER]
    python benchmarks/hard_margin_loss.py --summary --out FILE.csv [--limit 60]
    python benchmarks/hard_margin_loss.py --check --data DIR --proofs FOLDER

[--only TEXT] [--C 1 10 ...] choose rows, [--method directions|tree] the search, [--jobs N] starts
processes. The loss is that of [Brooks]; 175 instances with five C each, and bounds, are those of
[SantanaSerranoSchifferVidal], whose code is not run: `published_lower`, `published_upper` are the
best of nine entries with 600 s a row, `published_seconds` those of the quickest that ended. DIR has
`instances.npz` (NAME/X, NAME/y) and `published.csv`.

One thread a row. The limit is in processor seconds, `clock` has those of the clock. Few columns,
and rows that somebody has solved, come first. FILE gets a line when a row is done: the same command
goes on where it was stopped; with a larger limit it runs again what is open. Proofs of rows that
end, and that nobody had solved, go into FOLDER, unless they have more than [--largest 1e6] bytes:
cells take less than a byte a node, trees some hundred. `--check` has the second checker compute
their ends, and keeps them in FOLDER/index.csv, an index of `benchmarks.referee.library`.
"""

from __future__ import annotations

import datetime
import re
import time
from contextlib import suppress
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from benchmarks.command import parser_of
from benchmarks.referee.index import PROOF_DIGITS, Index
from benchmarks.referee.instances import DataSet, data_digest
from benchmarks.referee.library import checked_file, claim_of
from svmcvx import SvmcvxError, __version__
from svmcvx.fast import l0
from svmcvx.proofs import ProofFile, write_proof
from svmcvx.solution import Status
from svmcvx.synthetic import outlier_data
from svmcvx.system import clock

TOL = 1e-6  # relative: the gap of a row that has ended, the difference of equal bounds
PRINTED = 5e-7  # half of the last digit of the published bounds
COLUMNS = (
    *("instance", "C", "n", "d", "limit", "ended", "lower", "upper", "seconds", "clock"),
    *("method", "nodes", "proof_bytes"),
    *("published_ended", "published_lower", "published_upper", "published_seconds"),
)


def rows_of(given) -> list[pd.Series]:
    """The published rows that are chosen, in the order of the work."""
    rows = pd.read_csv(Path(given.data, "published.csv"))
    rows = rows[rows["instance"].str.contains(given.only, regex=False)]
    rows = rows[rows["C"].isin(given.C)] if given.C else rows
    # What nobody has solved comes last if it has more than eight columns.
    late = (rows["d"] > 8) & (rows["solved_by_any"] == 0)
    order = np.lexsort((rows["C"], rows["n"], rows["d"], late))
    return [row for _, row in rows.iloc[order].iterrows()]


def data_of(given, row) -> DataSet:
    with np.load(Path(given.data, "instances.npz")) as arrays:
        X, y = (arrays[f"{row['instance']}/{name}"] for name in "Xy")
    return DataSet(f"hard_margin_loss/{row['instance']}", X, y, data_digest(X, y))


def proof_path(given, row) -> Path:
    return Path(given.proofs, f"{row['instance']}-C{row['C']:g}.npz")


def results(given) -> pd.DataFrame:
    """The last line of each row within the limit; a line that was not written to its end goes."""
    text = Path(given.out).read_text()
    if not text.endswith("\n"):
        Path(given.out).write_text(text[: text.rfind("\n") + 1] or f"{','.join(COLUMNS)}\n")
    found = pd.read_csv(given.out)
    return found[found["limit"] <= given.limit].drop_duplicates(["instance", "C"], keep="last")


def solved(row, given) -> dict | None:
    """The line of a row, or None after Ctrl-C."""
    data = data_of(given, row)
    line = {name: row[name] for name in ("instance", "C", "n", "d")}
    line |= {"limit": given.limit, "ended": 0, "published_ended": row["solved_by_any"]}
    line |= {f"published_{name}": row[f"best_{name}"] for name in ("lower", "upper", "seconds")}
    with threadpool_limits(1):
        small = outlier_data(24, 2, sigma=0.5, outliers="spread", seed=9)
        for method in ("directions", "tree"):  # compile
            l0(*small, C=1.0, method=method)
        with clock.substituted(time.process_time):
            asked = {"method": given.method, "tol": TOL, "time_limit": given.limit}
            began, since = time.process_time(), time.perf_counter()
            try:
                found = l0(data.X, data.y, C=row["C"], **asked)
            except SvmcvxError as error:
                return line | {"method": type(error).__name__}
            line["seconds"] = round(time.process_time() - began, 3)
            line["clock"] = round(time.perf_counter() - since, 3)
    if found.status == Status.INTERRUPTED:
        return None
    certificate, ended = found.certificate, found.certificate.is_certified(TOL)
    line |= {"ended": int(ended), "lower": certificate.lower, "upper": certificate.upper}
    line |= {name: found.attempts[0].options.get(name) for name in ("method", "nodes")}
    if given.proofs and ended and not row["solved_by_any"]:
        proof, path = found.proof(), proof_path(given, row)
        write_proof(path, proof)
        line["proof_bytes"] = path.stat().st_size
        # A search whose record was too large states an end that no proof has.
        if proof.lower is None or line["proof_bytes"] > given.largest:
            path.unlink()
            line["proof_bytes"] = 0
    return line


def each(function, rows, given):
    """Results as they come; None, which Ctrl-C leaves, ends them."""
    parallel = joblib.Parallel(n_jobs=given.jobs, return_as="generator_unordered")
    for one in parallel(joblib.delayed(function)(row, given) for row in rows):
        if one is None:
            raise KeyboardInterrupt
        yield one


def run(given) -> None:
    Path(given.out).touch()
    done = results(given)
    done = done[(done["ended"] == 1) | (done["limit"] == given.limit)]
    if given.proofs:
        Path(given.proofs).mkdir(parents=True, exist_ok=True)
        new = (done["ended"] == 1) & (done["published_ended"] == 0)
        done = done[~new | done["proof_bytes"].notna()]
    there = set(zip(done["instance"], done["C"], strict=True))
    rows = [row for row in rows_of(given) if (row["instance"], row["C"]) not in there]
    print(f"{len(rows)} rows to do", flush=True)
    for line in each(solved, rows, given):
        told = pd.DataFrame([line], columns=COLUMNS)
        told.to_csv(given.out, mode="a", header=False, index=False)
        print(*told.iloc[0, :10], flush=True)


def checked(row, given) -> tuple:
    """The claim of a row's proof, and the processor seconds of the second checker."""
    data, began = data_of(given, row), time.process_time()
    found = checked_file(proof_path(given, row), data)
    said = {"date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(), "who": "svmcvx"}
    claim = claim_of(found, data, **said, version=f"svmcvx {__version__}")
    return claim, time.process_time() - began


def check(given) -> None:
    index = Index(Path(given.proofs, "index.csv"))
    known = {claim.proof for bounds in index for claim in bounds.claims}

    def is_new(row) -> bool:
        with ProofFile(proof_path(given, row)) as file:
            return file.digest[:PROOF_DIGITS] not in known

    rows = [row for row in rows_of(given) if proof_path(given, row).exists() and is_new(row)]
    print(f"{len(rows)} proofs to check", flush=True)
    for claim, seconds in each(checked, rows, given):
        index.merge(claim)
        index.write()
        told = (claim.data_set, claim.problem, claim.lower, claim.upper)
        print(*told, f"{seconds:.2f} s", flush=True)


def summary(found: pd.DataFrame) -> str:
    """What has ended, by group and in all, and how bounds compare with the published ones; groups
    that have ended are one.
    """
    ended, theirs = found["ended"] == 1, found["published_ended"] == 1
    upper, lower = found["upper"], found["lower"]
    best, below = found["published_upper"], found["published_lower"]
    size = TOL * np.maximum(upper, best) + PRINTED
    # Folds of a set; draws, and kinds A and B.
    group = found["instance"].map(lambda name: re.sub(r"(_f|[AB]_)\d+$", "", name))
    group = group.where(~ended.groupby(group).transform("all"), "others")
    no_higher, no_lower = upper <= best + size, ~ended & (lower >= below - size)
    lines = [
        "| instances | rows | ended | published | processor seconds: median, largest of the ended |"
        " open: lower end no worse | incumbent no worse |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in (*group.unique(), "all"):
        own = (group == name) | (name == "all")
        took = found.loc[own & ended, "seconds"]
        cells = (name, own.sum(), (own & ended).sum(), (own & theirs).sum())
        cells += (f"{took.median():.3g}, {took.max():.3g}" if len(took) else "–",)
        cells += (f"{(own & no_lower).sum()} of {(own & ~ended).sum()}", (own & no_higher).sum())
        lines.append(f"| {' | '.join(map(str, cells))} |")
    both, kept = ended & theirs, found.loc[ended & ~theirs, "proof_bytes"]
    opposed = (lower > best + size) | (below > upper + size)
    met = both & ((upper - best).abs() <= size)
    lines += [
        f"solved, and by nobody before: {kept.size}; kept are {(kept > 0).sum()} proofs of"
        f" {kept.sum() / 1e6:.2f} MB",
        f"published optima met: {met.sum()} of {both.sum()}; contradictions: {opposed.sum()}",
        f"seconds: {found['seconds'].sum():.0f} (processor), {found['clock'].sum():.0f} (clock)",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    options = {"data": None, "out": "hard_margin_loss.csv", "proofs": None, "only": ""}
    options |= {"method": "search", "jobs": 1, "limit": 60.0, "largest": 1e6}
    parser = parser_of(__doc__, **options, summary=False, check=False)
    parser.add_argument("--C", type=float, nargs="+")
    given = parser.parse_args(arguments)
    if given.summary:
        print(summary(results(given)))
    elif not given.data or (given.check and not given.proofs):
        parser.error("--data DIR is needed, with --check also --proofs FOLDER")
    else:
        with suppress(KeyboardInterrupt):
            (check if given.check else run)(given)


if __name__ == "__main__":
    main()
