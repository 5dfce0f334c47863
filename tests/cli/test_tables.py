"""What commands make of tables that nearly fit: what would help is said, and then helps."""

import json

import numpy as np
import pandas as pd
import pytest

from unbag.tables.persistence import describe_model, load_model

FAST = ["--model", "linear", "--folds", 0]


@pytest.fixture
def fit(call, tmp_path):
    """Fit a linear model to two frames."""

    def fit(visits, regions, *options):
        visits.to_csv(tmp_path / "v.csv", index=False)
        regions.to_csv(tmp_path / "r.csv", index=False)
        tables = [tmp_path / "v.csv", tmp_path / "r.csv", "--bag", "region", "--exclude", "id"]
        result = call("fit", *tables, *options, *FAST, "-o", tmp_path / "m.unbag")
        result.coefficients = None
        if result.returncode == 0:
            result.coefficients = load_model(tmp_path / "m.unbag").model[-1].coef_
            (tmp_path / "m.unbag").unlink()
        return result

    return fit


COUNTS = ["--positives", "conversions"]
SHARES = ["--proportion", "rate"]


def upper(v, r):
    return v, r.assign(region=r["region"].str.upper())


def whitespace(v, r):
    return v.assign(region=v["region"] + " "), r


def zeros(v, r):
    return v.assign(region=v["region"].str[1:]), r.assign(region=[f"0{i:03}" for i in range(24)])


def dates(v, r):
    days = [f"2024-05-{i + 1:02}" for i in range(24)]
    german = [f"{i + 1:02}.05.2024" for i in range(24)]
    return v.assign(region=v["region"].map(dict(zip(r["region"], days, strict=True)))), r.assign(
        region=german
    )


NEARLY = {
    "case": (
        upper,
        COUNTS,
        ["--ignore", "case"],
        "'r00' and 'R00' differ in case only: --ignore case.",
    ),
    "whitespace": (
        whitespace,
        COUNTS,
        ["--ignore", "whitespace"],
        "'r00 ' and 'r00' differ in whitespace only",
    ),
    "dates": (
        dates,
        COUNTS,
        ["--ignore", "date-format"],
        "'2024-05-01' and '01.05.2024' differ in how dates are written only: --ignore date-format.",
    ),
    "percent": (
        lambda v, r: (v, r.assign(rate=r["rate"] * 100)),
        SHARES,
        ["--percent"],
        "if these are percentages, use --percent.",
    ),
    "shares": (
        lambda v, r: (v, r.assign(conversions=r["rate"])),
        COUNTS,
        ["--proportion", "conversions"],
        "if these are proportions, use --proportion.",
    ),
    "stray": (
        lambda v, r: (v.assign(fLength=v["fLength"].astype(str).where(v.index != 16, "n/a?")), r),
        COUNTS,
        ["--na-values", "n/a?"],
        "holds 'n/a?' in row 17 of column 'fLength', which has numbers in 599 rows: correct it, or "
        "use --na-values 'n/a?' or --types fLength=category",
    ),
}


@pytest.mark.parametrize("name", NEARLY)
def test_what_would_help_is_said_and_helps(name, frames, fit):
    change, options, help_, message = NEARLY[name]
    visits, regions = frames
    if name == "stray":
        visits = visits.assign(fLength=visits["fLength"].fillna(40.0))
    result = fit(*change(visits, regions), *options)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1].endswith(message) or message in result.stderr
    plain = fit(visits, regions, *COUNTS)
    if name == "shares":
        options = []
    helped = fit(*change(visits, regions), *options, *help_)
    assert helped.returncode == 0, helped.stderr
    if name != "stray":  # one value is gone
        np.testing.assert_allclose(helped.coefficients, plain.coefficients, rtol=1e-6, atol=1e-9)


def test_codes_are_text_and_zeros_may_be_ignored(frames, fit):
    """In a file, 007 is a code and 7 a number: that they may be the same is for the user to say."""
    v, r = zeros(*frames)
    plain = fit(*frames, *COUNTS)
    for regions, message in [
        (r, "'00' and '0000' differ in leading zeros only: --ignore leading-zeros"),
        (r.assign(region=range(24)), "holds text (String) in the row table"),
    ]:
        result = fit(v, regions, *COUNTS)
        assert result.returncode == 1
        assert message in result.stderr
        assert "--ignore leading-zeros" in result.stderr
        helped = fit(v, regions, *COUNTS, "--ignore", "leading-zeros")
        np.testing.assert_allclose(helped.coefficients, plain.coefficients)


def test_a_time_constant_in_each_bag_is_named(frames, call, tmp_path):
    visits, regions = frames
    regions.to_csv(tmp_path / "r.csv", index=False)
    tables = [tmp_path / "v.csv", tmp_path / "r.csv", "--bag", "region", *COUNTS]
    day = pd.to_datetime("2024-05-01") + pd.to_timedelta(visits["region"].factorize()[0], "D")
    sentence = "day has one value in each bag, so a model learns nothing"
    visits.assign(day=day).to_csv(tmp_path / "v.csv", index=False)
    assert sentence in call("inspect", *tables, "--json").stderr
    visits.assign(day=day.where(visits.index > 0, day.max())).to_csv(
        tmp_path / "v.csv", index=False
    )
    assert sentence not in call("inspect", *tables, "--json").stderr


def test_ids_are_noticed_where_rows_were_left_out_and_empty_columns_are_named(
    frames, call, tmp_path
):
    visits, regions = frames
    visits = visits.assign(
        visit=np.random.default_rng(0).permutation(850)[:600],
        cents=np.random.default_rng(2).permutation(90000)[:600],
        remark=None,
    )
    visits.to_csv(tmp_path / "v.csv", index=False)
    regions.to_csv(tmp_path / "r.csv", index=False)
    tables = [tmp_path / "v.csv", tmp_path / "r.csv", "--bag", "region", *COUNTS]
    result = call("inspect", *tables, "--json")
    assert "id, visit are different in every row: --exclude id,visit" in result.stderr
    assert "remark has no value in any row, and is left out." in result.stderr


def test_ids_and_times_are_noticed(frames, call, tmp_path):
    visits, regions = frames
    visits = visits.assign(
        at=pd.date_range("2024-05-01", periods=600, freq="h").strftime("%Y-%m-%dT%H:%M:%SZ"),
        visit=[f"v-{i}" for i in range(600)],
        postcode=[f"{i % 7:05}" for i in range(600)],
    )
    visits.to_csv(tmp_path / "v.csv", index=False)
    regions.to_csv(tmp_path / "r.csv", index=False)
    tables = [tmp_path / "v.csv", tmp_path / "r.csv", "--bag", "region", *COUNTS]
    result = call("inspect", *tables, "--json")
    assert "id, visit are different in every row: --exclude id,visit" in result.stderr
    kinds = {c["name"]: (c["kind"], c["values"]) for c in json.loads(result.stdout)["columns"]}
    assert kinds["at"] == ("time", None)
    assert kinds["postcode"] == ("category", [f"{i:05}" for i in range(7)])
    args = call("inspect", *tables, "--json", "--exclude", "id,visit", "--types", "at=category")
    assert "different in every row: --exclude at" in args.stderr
    out = tmp_path / "m.unbag"
    fitted = call("fit", *tables, "--exclude", "id,visit", *FAST, "-o", out)
    assert fitted.returncode == 0, fitted.stderr
    assert "every row" not in fitted.stderr
    assert call("predict", out, tmp_path / "v.csv", "-o", tmp_path / "s.csv").returncode == 0


def test_percent_signs_need_no_option(frames, fit):
    visits, regions = frames
    signed = regions.assign(rate=(regions["rate"] * 100).round(6).astype(str) + "%")
    plain = fit(visits, regions, *COUNTS)
    np.testing.assert_allclose(fit(visits, signed, *SHARES).coefficients, plain.coefficients)


def test_swapped_tables(frames, fit):
    result = fit(frames[1].assign(id=1), frames[0], *COUNTS)
    assert result.returncode == 1
    assert "seem to be swapped: column 'conversions' is in the row table" in result.stderr
    assert "ROWS come first, then BAGS" in result.stderr


def test_finer_tables_and_samples_are_said(frames, fit):
    visits, regions = frames
    halves = pd.concat(
        [
            regions.assign(conversions=regions["conversions"] // 2, part="a"),
            regions.assign(conversions=(regions["conversions"] + 1) // 2, part="b"),
        ]
    )
    plain = fit(visits, regions, *COUNTS)
    finer = fit(visits, halves, *COUNTS)
    assert "24 bags have several rows in the bag table" in finer.stderr
    np.testing.assert_allclose(finer.coefficients, plain.coefficients)
    tenfold = regions.assign(conversions=10 * regions["conversions"], n=250)
    sampled = fit(visits, tenfold, *COUNTS, "--bag-size", "n")
    assert "24 bags have fewer rows in the row table" in sampled.stderr
    assert "random samples with the shares of their bags" in sampled.stderr
    np.testing.assert_allclose(sampled.coefficients, plain.coefficients)


def test_known_labels(frames, call, known, folder, tmp_path):
    """Three rows of known label leave their bags, and make two of their own, one for each class."""
    visits, regions = frames
    regions = regions.assign(conversions=regions["conversions"].clip(1, 24))
    visits.assign(outcome=visits["id"].map({0: 1, 1: 0, 30: 0})).to_csv(tmp_path / "v.csv")
    regions.to_csv(tmp_path / "r.csv", index=False)
    tables = [tmp_path / "v.csv", tmp_path / "r.csv", *known, *FAST]
    result = call("fit", *tables, "--labels", "outcome", "-o", tmp_path / "m.unbag")
    assert result.returncode == 0, result.stderr
    about = describe_model(tmp_path / "m.unbag")
    assert about["metadata"]["n_bags"] == 24 + 2
    assert about["metadata"]["fitted_with"]["label_column"] == "outcome"
    assert "outcome" not in [column["name"] for column in about["schema"]["columns"]]
    wrong = call(
        "fit",
        folder / "visits.parquet",
        *tables[1:],
        "--labels",
        "device",
        "-o",
        tmp_path / "w.unbag",
    )
    assert wrong.returncode == 1
    assert "Column 'device' of the row table" in wrong.stderr
    assert "must hold labels (0, 1) or nothing; row 1 holds" in wrong.stderr


def test_twenty_contradictions_are_shown(call, frames, folder, known, tmp_path):
    regions = frames[1].assign(conversions=26)
    regions.to_csv(tmp_path / "r.csv", index=False)
    result = call("inspect", folder / "visits.parquet", tmp_path / "r.csv", *known)
    assert result.returncode == 1
    assert len(result.stdout.splitlines()) == 1 + 20 + 1
    assert result.stdout.endswith("and 4 more places\n")
    assert "in 24 places.\nunbag inspect: error: " in result.stderr
    assert result.stderr.endswith("and 19 more.\n")
