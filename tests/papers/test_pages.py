"""Figures and p-values on docs/reproduction.md, computed again from the stored tables in
docs/results.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from svmcvx.experiments.statistics import corrected_t, holm, wilcoxon

DOCS = Path(__file__).parents[2] / "docs"
PAGE, DETAILS = (
    (DOCS / f"reproduction{name}.md").read_text().replace("−", "-") for name in ("", "_details")
)
# Names of the ODM paper for observations that another name has, too.
AGAIN = ["vote", "heart-statlog", "australian", "german"]


def table(name):
    return pd.read_csv(DOCS / "results" / f"{name}.csv")


def line(*words):
    """Return the one line of the page's tables with all the words."""
    rows = [one for one in PAGE.splitlines() if one.startswith("|")]
    (found,) = [one for one in rows if all(word in one for word in words)]
    return found


def holds(row, *figures):
    missing = [figure for figure in figures if figure not in row]
    assert not missing, f"{missing} not in: {row}"


def power(p):
    """Return a p-value with one digit, as the page has those below 0.001."""
    return f"{p:.0e}".replace("e-0", "e-")


def cell(mean, low, high, digits=3):
    return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def loss(row, less, digits=3):
    """Return by how much a method is below another one, with its interval."""
    ends = (-row[f"as_written_less_{less}{end}"] for end in ("", "_high", "_low"))
    return cell(*ends, digits)


def gain(row, less, digits=3):
    return cell(*(row[f"as_written_less_{less}{end}"] for end in ("", "_low", "_high")), digits)


def half(sd, size):
    return stats.t.ppf(0.975, size - 1) * sd / np.sqrt(size)


def welch(row, size, here):
    sides = [
        (row[what], row[f"{what}_sd"], n) for what, n in (("published", size), ("as_written", here))
    ]
    return stats.ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False).pvalue


def interval(values, digits=3):
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    return f"{low:.{digits}f} to {high:.{digits}f}"


def exact(hits, size):
    found = stats.binomtest(hits, size).proportion_ci(0.95)
    return found.low, found.high


def test_the_page_is_read_in_ten_minutes():
    words = [word for word in PAGE.split() if re.search(r"[A-Za-z0-9]", word)]
    assert len(words) <= 10 * 220


@pytest.mark.parametrize(
    ("title", "count"), [("Refuted", "Six"), ("Not reproduced here", "Eleven"), ("Open", "Seven")]
)
def test_lists_have_the_rows_that_they_say_and_each_has_its_cells(title, count):
    part = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    assert f"{count} rows." in part
    rows = [one for one in part.splitlines() if one.startswith("| [")]
    assert len(rows) == {"Six": 6, "Seven": 7, "Eleven": 11}[count]
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 4
        assert all(cells)
        # What the paper says in its words, and a command.
        assert '"' in cells[0] or "inequality" in cells[0] or "hinge, commented out" in cells[0]
        assert "`" in cells[-1]


def test_psvm():
    found = table("psvm_table1")
    released, written = (
        found[f"as_{how}"] == found["published"] for how in ("released", "written")
    )
    alone = int((released & ~written).sum())
    assert not (written & ~released).any()
    holds(
        line('"Both our model'),
        f"{released.sum()} of {len(found)}",
        f"{written.sum()} with the Gaussian kernel",
        f"{alone} cells",
        f"McNemar's p = {power(2 * 0.5**alone)}",
    )
    row = line("nine exponents, five sets")
    holds(row, f"{found['as_released_within_noise'].sum()} within noise")
    holds(row, f"as written {found['as_written_within_noise'].sum()} within noise")
    baselines = table("psvm_table1_baselines")
    ours, theirs = (
        one.groupby("dataset", sort=False)["as_written"].max()
        for one in (found, baselines.query("published.notna()"))
    )
    *several, last = (f"{a:.2f} / {b:.2f}" for a, b in zip(ours, theirs, strict=True))
    assert f"{', '.join(several)} and {last}" in DETAILS
    row = line("achieves the best classification performance on all selected datasets. This is")
    wine = baselines.query("dataset == 'Wine'").set_index("method")
    wine = wine.loc[["svm", "svm, released kernel"]]
    usual, same = (one.split(" : ") for one in wine["best_psvm_released_against"])
    holds(row, "{} rows against {} of the SVM".format(*usual))
    holds(row, "{} against {} of the SVM with the same kernel".format(*same))
    holds(row, ", ".join(f"{p:.2g}" for p in wine["best_psvm_released_mcnemar"]))
    holds(
        line("performs optimally"),
        f"McNemar: {found.query('p > 1')['as_written_mcnemar'].min():.3f}",
    )


NAMES = {"wdbc": "Cancer", "heart-statlog": "Heart", "ionosphere": "Ionosphere"}
NAMES |= {"wine-quality": "Wine", "banknote": "Banknote"}


def test_psvm_on_twenty_splits():
    trials, ranges, widest, p_values, against_others = table("trials/psvm_splits"), [], [], [], []
    assert trials.query("C.notna()")["certified"].all()
    for dataset, part in trials.groupby("dataset", sort=False):
        scores = 100 * part.pivot_table("accuracy", "repeat", "model")
        assert len(scores) == 20
        ratio = (part["n_test"] / part["n_train"]).mean()
        exponents = scores.columns.str.startswith("p = ")
        others = scores[scores.columns[exponents].drop("p = 1")].sub(scores["p = 1"], axis=0)
        sizes = [corrected_t(difference, ratio) for _, difference in others.items()]
        p_values += [one.p for one in sizes]
        ranges.append((min(one.mean for one in sizes), max(one.mean for one in sizes)))
        widest.append(np.nanmax(np.abs([(one.low, one.high) for one in sizes])))
        means = scores.mean()
        best, other = means[exponents].idxmax(), means[~exponents].idxmax()
        difference = scores[best] - scores[other]
        size = corrected_t(difference, ratio)
        against_others.append(size.p)
        cells = [NAMES[dataset], f"{best.removeprefix('p = ')}: {means[best]:.2f}"]
        cells += [
            f"{other} {means[other]:.2f}",
            cell(size.mean, size.low, size.high, 2),
            f"{size.p:.2g}",
        ]
        assert f"| {' | '.join(cells)} |" in DETAILS
    row = line("performs optimally")
    texts = [
        " to ".join("0" if abs(end) < 5e-3 else f"{end:.2f}" for end in pair) for pair in ranges
    ]
    holds(
        row,
        f"from {', '.join(texts)} points",
        f"within {', '.join(f'{end:.1f}' for end in widest)}",
    )
    holds(row, f"{len(p_values)} tests, least p = {np.nanmin(p_values):.2f}")
    row = line("achieves the best classification performance on all selected datasets. This is")
    holds(row, f"least p = {min(against_others):.2f}")


def test_psvm_on_usps():
    ours = table("psvm_table3").query("dataset == 'USPS'")
    hits = round(ours["as_written"].iloc[0] / 100 * 1860)
    low, high = exact(hits, 1860)
    pair = [stats.binomtest(hits, 1860, printed / 100).pvalue for printed in ours["published"]]
    row = line("particularly on the USPS Dataset")
    holds(row, f"{100 * hits / 1860:.2f} ({100 * low:.1f} to {100 * high:.1f})")
    holds(row, f"{ours['as_written_svm'].iloc[0]:.2f}")
    for p in (pair, ours["as_written_mcnemar"]):
        holds(row, "p = {:.2f}, {:.2f}".format(*p))
    tests = table("psvm_table3")["as_written_mcnemar"].dropna()
    assert f"p = {tests.min():.3f}; {holm(tests).min():.2f} by Holm" in DETAILS
    others = table("m3svm_table1_large").query("dataset == 'USPS'")["as_written"]
    assert 100 * others.max() < ours["as_written"].min()


def test_the_expectation_of_the_printed_bound_of_theorem_2():
    # It lies between 0 and 1, and is 0 in 20 of 20 samples.
    assert f"at most {1 - 0.05 ** (1 / 20):.2f}, 95 %" in line("[ZhangZhou], Theorem 2")
    assert 0.5**20 < 1e-6
    holds(line("[ZhangZhou], Theorem 2"), "p < 1e-6")


def test_conic_table_1():
    found = table("conic_table1")
    clustered = found.query("outliers == 'clustered' and method != 'bayes'")
    assert max(welch(row, 320, 320) for _, row in clustered.iterrows()) < 1e-21
    row = line("has a probability of breaking down")
    for method in ("hinge", "conic"):
        part = clustered[clustered["method"] == method]
        figures = zip(part["as_written"], part["as_written_sd"], strict=True)
        # The exact mean of 43.15 is between 43.14 and 43.15.
        cells = [f"{mean - 1e-6:.1f} ± {half(sd, 320):.1f}" for mean, sd in figures]
        printed = ", ".join(map(str, part["published"]))
        holds(row, f"{method} {', '.join(cells)}", f"{method} {printed} %")
    half_share = found.query("outliers == 'clustered, half as many' and method != 'bayes'")
    assert half_share["as_written_within_noise"].all()
    assert len(half_share) == 6


def test_conic_tables_3_and_4():
    found = table("conic_table3").query("dataset != 'Average'")
    cancer = found.query("dataset == 'Breast cancer' and tau == 0")
    row = line("Breast cancer", "averages and standard deviations over 20 splits")
    for _, one in cancer.iterrows():
        width = half(one["as_written_sd"], 20)
        holds(row, f"{one['as_written']:.1f} ± {width:.1f}", power(welch(one, 20, 20)))
    row, freedom = line("smaller standard deviations"), 5 * 19
    for _, part in found.groupby("tau"):
        by_method = part.groupby("method")["as_written_sd"]
        mean, variance = by_method.mean(), by_method.agg(lambda sd: (sd**2).mean())
        ratio = variance["hinge"] / variance["conic"]
        spread = stats.f(freedom, freedom)
        low, high = (ratio / spread.ppf(q) for q in (0.975, 0.025))
        p = 2 * min(spread.cdf(ratio), spread.sf(ratio))
        holds(row, f"{mean['hinge']:.1f} and {mean['conic']:.1f}", cell(ratio, low, high, 2))
        holds(row, f"{p:.2f}")
    sets = found.query("dataset != 'Breast cancer' and method != 'bayes'")
    inside = f"{sets['as_written_within_noise'].sum()} of {len(sets)} within noise"
    holds(line("[CepedaGomezHan], 3: five real sets"), inside)
    separable = table("conic_table4").query("method == 'hinge'")
    row = line("instances of type 1")
    for _, one in separable.iterrows():
        assert welch(one, 320, 320) < 1e-24
        width = half(one["as_written_sd"], 320)
        holds(row, f"{one['as_written']:.1f} ± {width:.1f}", str(one["published"]))


def test_l0():
    tables = [table(f"l0_table5{k}") for k in (1, 2, 3)]
    runs = [one.split("/") for part in tables for one in part["as_written_converged"].dropna()]
    ends, total = sum(int(a) for a, _ in runs), sum(int(b) for _, b in runs)
    low, high = exact(ends, total)
    share = f"{100 * ends / total:.0f} %; {100 * low:.0f} to {100 * high:.0f} %"
    holds(line("Algorithm 4.1 can be terminated"), f"{ends} of {total} runs", share)
    noisy = tables[0].query("label_noise == 0.1").set_index("method")
    one = noisy.loc["l2"]
    width = half(one["as_written_nsv_sd"], one["repetitions"])
    row = line("squared hinge at r = 10 %")
    holds(row, f"{one['as_written_nsv']} ± {width:.1f}", f"{one['published_nsv']} support vectors")
    holds(row, f"l0 {noisy.loc['l0 polished', 'as_written_nsv']}")
    # Counts of 300 training and 200 test observations: together 10, 50 and 100 of 500.
    printed = tables[0].query("method == 'l0' and label_noise > 0")
    wrong = 300 * (1 - printed["published_train"] / 100) + 200 * (1 - printed["published"] / 100)
    assert wrong.round().tolist() == [10, 50, 100]
    real = tables[2].pivot_table("as_written_nsv", "dataset", "method")
    assert (real["l0 polished"] < real[["l1", "l2"]].min(axis=1)).all()


def test_m3svm_by_folds_and_on_splits():
    folds, splits = table("m3svm_table1_folds"), table("m3svm_table1")
    row = line("Glass 0.744, Dermatology 0.988")
    for name in ("Glass", "Dermatology"):
        by_method = folds[folds["dataset"] == name].set_index("method")
        one = by_method.loc["m3svm"]
        mean, width = one["as_written"], half(one["as_written_sd"], 10)
        holds(row, f"{mean - width:.3f} to {mean + width:.3f}", power(welch(one, 10, 10)))
        released = splits.query("dataset == @name and method == 'm3svm'")["as_released"].item()
        holds(row, f"{by_method.loc['m3svm, as released', 'as_written']:.3f}", f"{released:.3f}")
    row = line("M3SVM achieves the best classification performance")
    for found in (folds, splits):
        tests = found["as_written_against_m3svm_t"].dropna()
        assert len(tests) == 21
        holds(row, f"{tests.min():.2f}")
        ends = found[["as_written_less_m3svm_low", "as_written_less_m3svm_high"]].abs().max(axis=1)
        widest = ends.groupby(found["dataset"], sort=False).max()
        holds(row, ", ".join(f"{widest[name]:.3f}" for name in ("Dermatology", "Vehicle", "Glass")))
        for name, part in found.groupby("dataset"):
            others = part[~part["method"].str.startswith("m3svm")]["as_written"].max()
            # 1360 of 2140 predictions on Glass are 0.63551, stored with four digits.
            own = part.query("method == 'm3svm'")["as_written"].item() + 1e-6
            joint = (f"{own:.3f} on Glass, best other {others:.3f}", f"{own:.3f} and {others:.3f}")
            assert any(text in row for text in joint), name
    row = line("hinge less softmax")
    for _, one in folds.query("method == 'm3svm, hinge, as released'").iterrows():
        holds(row, gain(one, "softmax"), f"{one['as_written_against_softmax_t']:.2f}")


@pytest.mark.parametrize(
    ("mean", "deviation", "size"),
    [(0.744, 0.007, 43), (0.988, 0.001, 74)],
    ids=["Glass", "Dermatology"],
)
def test_printed_deviations_are_those_of_five_folds_and_not_of_one_split(mean, deviation, size):
    possible = []
    for n in (size, 5 * size):
        # Totals of ten runs that give the mean; a share of the runs has one more than the others.
        shares = [k % 10 / 10 for k in range(10 * n + 1) if round(k / (10 * n), 3) == mean]
        least = min(np.sqrt(share * (1 - share) or 0.2) / n for share in shares)
        possible.append(bool(least < deviation + 0.0005))
    assert possible == [False, True]


def test_m3svm_on_the_large_sets():
    found = table("m3svm_table1_large").set_index(["dataset", "method"])
    row = line("Crammer, M-SVM, Top-k")
    for name, size in (("ORL", 80), ("USPS", 1860)):
        part = found.loc[[(name, method) for method in ("crammer", "msvm", "topk")]]
        hits, printed = (part["as_written"] * size).round().astype(int).tolist(), part["published"]
        each = [
            stats.binomtest(*one).pvalue
            for one in zip(hits, [size] * 3, printed.tolist(), strict=True)
        ]
        holds(row, ", ".join(power(p) if p < 1e-3 else f"{p:.2f}" for p in each))
        holds(row, ", ".join(f"{one:.3f}" for one in printed))
        holds(row, *(f"{count / size:.3f}" for count in hits))
        ends = np.array([exact(count, size) for count in hits])
        if name == "ORL":
            holds(row, f"({ends[0, 0]:.3f} to {ends[0, 1]:.0f})")
        else:
            assert np.abs(ends - np.array(hits)[:, None] / size).max() < 0.0145
    row = line("convergence observed within 500 iterations")
    excess = found["as_released_adam_excess"].dropna()
    for name in ("Cornell", "ISOLET"):
        holds(row, f"{100 * excess[name].item():.0f} % on {name}")
    small = table("m3svm_table1").set_index("dataset")["as_released_adam_excess"].dropna()
    middle = [excess["USPS"].item(), excess["USPS, 1854"].item(), small["Glass"].item()]
    holds(row, f"{100 * min(middle):.1f} to {100 * max(middle):.1f} %")
    holds(row, f"{100 * small['Vehicle'].item():.3f} %")
    cornell = found.loc[("Cornell", "m3svm")]
    assert round(166 * (cornell["as_released"] - cornell["as_released_adam"])) == 4


def test_m3svm_tuned_on_usps():
    found = table("m3svm_table1_usps").set_index("method")["as_written"]
    untuned = table("m3svm_table1_large").query("dataset == 'USPS, 1854' and method == 'm3svm'")
    (sentence,) = re.findall(r"Tuned on every second value .*", DETAILS)
    holds(sentence, f"M3SVM has {found['m3svm']:.3f}")
    holds(sentence, f"untuned {untuned['as_written'].item():.3f}".replace("0.", "."))
    holds(sentence, f"the best other method {found.drop('m3svm').max():.3f}")


def test_m3svm_figure_3():
    found = table("m3svm_figure3")
    row = line("generally better when p is around 4")
    other = found["as_written_against_p4_t"].dropna()
    one = found.query("dataset == 'Vehicle' and p == 8").iloc[0]
    assert len(other) == 21
    holds(row, gain(one, "p4"), f"p = {other.min():.3f} (Holm: {holm(other).min():.2f})")
    assert other.nsmallest(2).iloc[1] > 0.07


OUTCOMES = ("better", "tie", "worse")


def counts(marks):
    return "/".join(str((marks == outcome).sum()) for outcome in OUTCOMES)


def odm(number):
    found = table(f"odm_table{number}")
    found = found[~found["dataset"].isin(AGAIN) & found["as_written"].notna()]
    assert found["dataset"].nunique() == 20
    return found


def test_odm_counts():
    row = line("ODML/ODM performs significantly better than SVM on 17/24")
    for number in (2, 3):
        by_method = dict(tuple(odm(number).groupby("method")))
        for method in ("odm", "odml"):
            part = by_method[method]
            columns = ["as_written_against_svm", "as_written_against_usual"]
            columns += ["as_summed_against_svm"] if number == 2 else []
            holds(row, *(counts(part[column]) for column in columns))
            holds(row, f"printed {counts(part['published_against_svm'])}")


def test_odm_against_the_svm():
    row = line("ODML/ODM performs significantly better than SVM on 17/24")
    for number in (2, 3):
        of_odm = odm(number).query("method == 'odm'")
        for base in ("svm", "usual"):
            less = of_odm[f"as_written_less_{base}"]
            holds(row, f"{less.mean():.3f} ({interval(less)})", f"p = {wilcoxon(less):.2g}")
    row = line("never worse than SVM")
    odm_rows = odm(2).query("method == 'odm'").set_index("dataset")
    worse = odm_rows.index[odm_rows["as_written_against_svm"] == "worse"]
    assert set(worse) == {"parkinsons", "haberman", "austra"}
    for name in worse:
        one = odm_rows.loc[name]
        holds(row, loss(one, "svm"), f"{one['as_written_corrected_t']:.2f}")
    usual = odm_rows[odm_rows["as_written_usual_corrected"] == "worse"]
    assert set(usual.index) == {"diabetes", "fourclass", "wdbc"}
    for _, one in usual.iterrows():
        holds(row, loss(one, "usual"))
    gaussian = odm(3).query("method == 'odm'").set_index("dataset")
    assert not (gaussian["as_written_against_svm"] == "worse").any()
    assert not (gaussian["as_written_usual_corrected"] == "worse").any()
    lower = gaussian[gaussian["as_written_against_usual"] == "worse"]
    assert set(lower.index) == {"heart", "fourclass"}
    for name, one in lower.iterrows():
        below, _, ends = loss(one, "usual").partition(" ")
        holds(row, f"{name} {'by ' if name == 'heart' else ''}{below}", ends)
        holds(row, f"{one['as_written_usual_t']:.3f}", f"{one['as_written_usual_corrected_t']:.2f}")


def test_clean1():
    (sentence,) = re.findall(r"clean1 was added later: .*", DETAILS)
    for number, part in zip((2, 3), sentence.split("; on five"), strict=True):
        found = table(f"odm_table{number}_clean1").set_index("method")
        names = {"odm": "ODM", "odml": "ODML", "svm": "the SVM", "lda": "LDA"}
        for method in found.index.drop("svm, usual"):
            row = found.loc[method, ["as_written", "published"]]
            ours, printed = (f"{value:.3f}"[1:] for value in row)
            assert re.search(
                rf"{names[method]} {ours}( as written)? \((printed )?{printed}\)", part
            )
    assert f"the usual SVM {found.loc['svm, usual', 'as_written']:.3f}".replace(" 0.", " .") in part
    assert list(found.index[found["as_written_within_noise"]]) == ["svm, usual"]


def test_lda():
    found = odm(2)
    lda = found[found["method"] == "lda"]
    difference = lda["as_written"] - lda["published"]
    means = lda[["as_written", "published"]].mean()
    row = line("Linear Discriminant Analysis")
    holds(row, f"{means['as_written']:.3f}, printed {means['published']:.3f}")
    holds(row, f"{difference.mean():.3f} ({interval(difference)}; 20 sets)")
    holds(row, f"p = {power(wilcoxon(difference))}")
    large = table("odm_table4").query("dataset == 'cod-rna' and method == 'lda'").iloc[0]
    # By the corrected resampled t-test, whose parts are of equal size.
    halves = large["as_written_splits"]
    width = stats.t.ppf(0.975, halves - 1) * large["as_written_sd"] * np.sqrt(1 / halves + 1)
    holds(row, f"{large['as_written']:.3f} ± {width:.3f}", f"printed {large['published']:.3f}")


def test_large_odm_sets():
    found = pd.concat([table("odm_table4"), table("odm_table4_w8a")])
    found = found[found["as_written"].notna() & found["method"].isin(["svm", "odml", "odm"])]
    assert len(found) == 12
    inside = [int(found[f"{what}_within_noise"].sum()) for what in ("as_summed", "as_written")]
    holds(line("4: large sets"), "{} of 12 within noise, as written {}".format(*inside))
    for dataset, part in found.groupby("dataset"):
        rows = [one for one in DETAILS.splitlines() if one.startswith(f"| {dataset} | ")]
        (row,) = [one for one in rows if one.count(", ") == 7]
        for column in ("published", "as_written", "as_summed"):
            each = part.set_index("method").loc[["svm", "odml", "odm"], column]
            assert ", ".join(f"{one:.3f}" for one in each) in row


def test_means_over_the_odm_sets():
    for number, words in ((2, "2: linear"), (3, "3: Gaussian kernel")):
        found = odm(number)
        row = line(words)
        means = found.groupby("method")[["as_written", "published"]].mean()
        shown = means.loc[["svm", "odml", "odm"]]
        holds(row, ", ".join(f"{one:.3f}" for one in shown["as_written"]))
        holds(row, f"usual SVM {means.loc['svm, usual', 'as_written']:.3f}")
        holds(row, *(f"{one:.3f}" for one in shown["published"]))
        own = found[found["method"].isin(["svm", "odml", "odm"])]
        assert len(own) == 60
        holds(row, str(own["as_written_within_noise"].sum()))


# The page with the details


def per_cent(errors, digits=1):
    errors = 100 * errors.to_numpy()
    return f"{errors.mean():.{digits}f} ± {half(errors.std(ddof=1), errors.size):.{digits}f}"


def test_trials_of_conic_table_1_in_the_details():
    trials = table("trials/conic_table1")
    clustered = trials.query("outliers == 'clustered' and sigma == 0.2")
    for size, words in (
        ("n >= 500", "of {} trials with n ≥ 500"),
        ("n <= 200", "of {} with n ≤ 200"),
    ):
        part = clustered.query(size)
        assert f"{(part['hinge_error'] > 0.3).sum()} {words.format(len(part))}" in DETAILS
    part = trials.query("outliers == 'clustered, half as many' and sigma == 0.2")
    broken = part[part["hinge_error"] > 0.3]
    assert set(broken["n"]) == {100, 200}
    assert f"breakdowns in {len(broken)} of {len(part)} trials" in DETAILS
    less = trials["hinge_error"] - trials["conic_error"]
    for kind in ("none", "spread", "clustered"):
        each = [
            per_cent(less[(trials["outliers"] == kind) & (trials["sigma"] == s)], 2)
            for s in (0.2, 0.5, 1.0)
        ]
        assert f"{each[0]}, {each[1]} and {each[2]}" in DETAILS


def test_trials_of_conic_tables_3_and_4_in_the_details():
    real = table("trials/conic_table3")
    for _, part in real.groupby("tau"):
        less = 100 * (part["hinge_error"] - part["conic_error"])
        by_set = less.groupby(part["dataset"])
        mean, error = by_set.mean().mean(), np.sqrt((by_set.var() / 20).sum()) / 5
        assert f"{abs(mean):.1f} ± {stats.t.ppf(0.975, 95) * error:.1f}" in DETAILS
        if mean < 0:
            assert f"(p = {power(2 * stats.t.sf(-mean / error, 95))})" in DETAILS
    separable = table("trials/conic_table4")
    by_tau = [part for _, part in separable.groupby("tau")]
    for method in ("hinge_error", "conic_error"):
        few = [per_cent(part.query("p == 3")[method]) for part in by_tau]
        assert f"{few[0]}, {few[1]} and {few[2]}" in DETAILS
    for part in by_tau:
        less = part["hinge_error"] - part["conic_error"]
        p = stats.ttest_1samp(less, 0).pvalue
        assert per_cent(abs(less.mean()) + less - less.mean(), 2) in DETAILS
        assert f"p = {power(p) if p < 1e-3 else format(p, '.2g')}" in DETAILS


def signs(difference, digits=4):
    difference = difference.round(6)
    p = wilcoxon(difference)
    text = power(p) if p < 1e-3 else f"{p:.1g}" if p < 0.01 else f"{p:.2g}"
    above, below = (difference > 0).sum(), (difference < 0).sum()
    # Halves are rounded up.
    return f"{difference.mean() + 1e-9:+.{digits}f}, {above} and {below}, p = {text}"


@pytest.mark.parametrize(("number", "kernel"), [(2, "linear"), (3, "Gaussian")])
def test_differences_and_counts_of_the_odm_tables_in_the_details(number, kernel):
    by_method = {
        method: part.set_index("dataset") for method, part in odm(number).groupby("method")
    }
    printed = {method: by_method[method]["published"] for method in ("svm", "odm", "odml")}
    for method in ("odm", "odml"):
        part, head = by_method[method], f"| {method.upper()}, {kernel} |"
        shown = [
            [cell.strip() for cell in one.strip("|").split("|")]
            for one in DETAILS.splitlines()
            if one.startswith(head)
        ]
        columns = ["as_written_less_svm", "as_written_less_usual"]
        names = ["as_written_against_svm", "as_written_corrected"]
        names += ["as_written_against_usual", "as_written_usual_corrected"]
        if number == 2:
            columns.append("as_summed_less_svm")
            names += ["as_summed_against_svm", "as_summed_corrected"]
        differences = [printed[method] - printed["svm"], *(part[column] for column in columns)]
        outcomes = [part["published_against_svm"], *(part[name] for name in names)]
        expected = [list(map(signs, differences)), list(map(counts, outcomes))]
        for cells, own in zip(shown, expected, strict=True):
            assert cells[1 : len(own) + 1] == own
