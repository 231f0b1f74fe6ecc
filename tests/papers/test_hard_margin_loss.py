"""The benchmark of Brooks' hard-margin loss on three tiny instances: it goes on where it was
stopped, and tells what is new.
"""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import svmcvx as sx
from benchmarks.hard_margin_loss import PROOF_DIGITS, main, summary
from benchmarks.referee.library import lookup
from svmcvx.proofs import ProofFile

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "hard_margin_loss"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data and bounds of three instances: solved, open, and solved with a wrong optimum."""
    folder, arrays, rows = tmp_path_factory.mktemp("data"), {}, []
    for seed, name in enumerate(("n20d2A_0", "tiny_f1", "tiny_f2")):
        X, y = sx.synthetic.outlier_data(20, 2, sigma=0.5, outliers="spread", seed=seed)
        arrays |= {f"{name}/X": X, f"{name}/y": y.astype(np.int8)}
        end = sx.fast.l0(X, y, C=1.0).certificate.upper
        lower, upper, solved = ((end, end, 1), (0.9 * end, end, 0), (0.9 * end, 0.9 * end, 1))[seed]
        rows.append((name, 20, 2, 1, upper, lower, solved, 3.0 if solved else None))
    columns = ("instance", "n", "d", "C", "best_upper", "best_lower", "solved_by_any")
    frame = pd.DataFrame(rows, columns=(*columns, "best_seconds"))
    frame.to_csv(folder / "published.csv", index=False)
    np.savez(folder / "instances.npz", **arrays)
    return folder


def test_it_goes_on_where_it_was_stopped_and_tells_what_is_new(folder, tmp_path, capsys):
    out, proofs = tmp_path / "out.csv", tmp_path / "proofs"
    command = ["--data", str(folder), "--out", str(out), "--proofs", str(proofs)]
    main(command)
    whole = pd.read_csv(out)
    assert "3 rows to do" in capsys.readouterr().out
    assert list(whole["ended"]) == [1, 1, 1]
    main(command)
    assert "0 rows to do" in capsys.readouterr().out

    # The last line is lost, and the one before was not written to its end.
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:2]) + lines[2][:30])
    main([*command, "--only", "tiny"])
    assert "2 rows to do" in capsys.readouterr().out
    untimed = ["instance", "ended", "lower", "upper", "nodes", "proof_bytes"]
    pd.testing.assert_frame_equal(pd.read_csv(out)[untimed], whole[untimed])

    main(["--summary", "--out", str(out)])
    told = capsys.readouterr().out
    assert "| others | 3 | 3 | 2 |" in told
    assert "| all | 3 | 3 | 2 |" in told
    assert "solved, and by nobody before: 1; kept are 1 proofs" in told
    assert "published optima met: 1 of 2; contradictions: 1" in told

    main([*command, "--check"])
    assert "1 proofs to check" in capsys.readouterr().out
    main([*command, "--check"])
    assert "0 proofs to check" in capsys.readouterr().out
    with np.load(folder / "instances.npz") as arrays:
        X, y = arrays["tiny_f1/X"], arrays["tiny_f1/y"]
    known = lookup(X, y, "l0 C=1 intercept=free", index=proofs / "index.csv")
    assert known.status == "proved"
    assert known.contains(whole.loc[1, "upper"], tol=1e-9)


def test_what_is_open_is_run_again_with_a_larger_limit(folder, tmp_path, capsys):
    out = tmp_path / "out.csv"
    command = ["--data", str(folder), "--out", str(out), "--only", "tiny_f1"]
    main([*command, "--limit", "1e-9"])
    main([*command, "--limit", "1e-9"])
    assert capsys.readouterr().out.count("0 rows to do") == 1
    main([*command, "--limit", "60"])
    found = pd.read_csv(out)
    assert list(found["ended"]) == [0, 1]
    main(["--summary", "--out", str(out), "--limit", "1e-9"])
    assert "| all | 1 | 0 | 0 | – |" in capsys.readouterr().out


def test_the_page_says_what_is_stored():
    page = (ROOT / "benchmarks" / "README.md").read_text()
    told = summary(pd.read_csv(RESULTS / "bounds.csv")).splitlines()
    for line in told[2 : told.index(next(line for line in told if line.startswith("| all")))]:
        cells = line.strip("| ").split(" | ")
        assert f"| {' | '.join([*cells[:4], *cells[5:]])} |" in page
    assert "; contradictions: 0" in told[-2]


def test_the_stored_proofs_are_those_of_the_index():
    with (RESULTS / "index.csv").open() as stream:
        known = {row["proof"] for row in csv.DictReader(stream)}
    kept = [*RESULTS.glob("*.npz")]
    assert kept
    for path in kept:
        with ProofFile(path) as file:
            assert file.digest[:PROOF_DIGITS] in known
