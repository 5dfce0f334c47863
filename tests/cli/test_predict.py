"""``unbag predict``: streaming equals what the model says in memory."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from unbag.cli import main
from unbag.datasets import make_gaussian_bags
from unbag.models import LLPClassifier
from unbag.tables import open_table
from unbag.tables.persistence import load_model, save_model
from unbag.tables.schema import make_schema


def test_streaming_equals_memory(call, folder, frames, tmp_path):
    scores = tmp_path / "scores.parquet"
    arguments = ["predict", folder / "model.unbag", folder / "visits.csv.gz", "-o", scores]
    result = call(*arguments, "--keep", "id", "--chunk-rows", "37")
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert "600 rows written" in result.stderr
    found, visits = open_table(scores).read(), frames[0]
    assert list(found) == ["region", "id", "class", "score", "probability"]
    assert found[["region", "id"]].equals(visits[["region", "id"]].astype(found.dtypes[:2]))
    model = load_model(folder / "model.unbag").model
    rule = load_model(folder / "model.unbag").metadata["rule"]
    np.testing.assert_array_equal(found["class"], found["probability"] > rule["threshold"])
    np.testing.assert_allclose(found["score"], model.decision_function(visits), atol=1e-12)
    np.testing.assert_allclose(found["probability"], model.predict_proba(visits)[:, 1], atol=1e-12)


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".feather"])
def test_any_format_and_any_order(call, folder, frames, tmp_path, suffix):
    visits = frames[0]
    shuffled = visits[list(visits)[::-1]].drop(columns="region").assign(more=1)
    new = tmp_path / "new.parquet"
    shuffled.to_parquet(new)
    out = tmp_path / f"s{suffix}"
    keep = ",".join(shuffled)
    result = call("predict", folder / "model.unbag", new, "-o", out, "--keep", keep)
    assert result.returncode == 0, result.stderr
    found = open_table(out).read()
    assert list(found) == [*shuffled, "class", "score", "probability"]
    score = load_model(folder / "model.unbag").model.decision_function(visits)
    np.testing.assert_allclose(found["score"], score, atol=1e-12)


def test_csv_on_stdout(call, folder):
    arguments = ["predict", folder / "model.unbag", folder / "visits.parquet", "-o", "-"]
    whole = call(*arguments)
    assert whole.returncode == 0
    assert whole.stdout == call(*arguments, "--chunk-rows", 100).stdout
    assert whole.stdout.startswith("region,class,score,probability\nr00,")
    assert whole.stdout.count("\n") == 601


def test_unseen_categories_are_counted(call, folder, frames, tmp_path):
    visits = frames[0].copy()
    visits.loc[:9, "device"] = "watch"
    visits.loc[595:, "device"] = "fridge"
    visits.loc[3:4, list(visits)[1]] = np.nan
    visits.to_parquet(tmp_path / "new.parquet")
    arguments = ["predict", folder / "model.unbag", tmp_path / "new.parquet", "--json"]
    result = call(*arguments, "--chunk-rows", 100, "-o", tmp_path / "s.csv")
    assert result.returncode == 0, result.stderr
    assert "'device': 15 rows of categories that were not in the training" in result.stderr
    found = json.loads(result.stdout)
    assert found["unseen"] == {"device": {"rows": 15, "examples": ["watch", "fridge"]}}
    assert found["missing"] == {list(visits)[1]: 2}
    assert found["rows"] == 600


def test_failures_leave_the_old_file(call, folder, frames, tmp_path):
    visits = frames[0]
    name = list(visits)[1]
    out, new = tmp_path / "s.csv", tmp_path / "new.csv"
    out.write_text("old")
    odd = visits.astype({name: object})
    odd.loc[500, name] = "big"
    arguments = ["predict", folder / "model.unbag", new, "-o", out, "--chunk-rows", "50"]
    for table, message in [
        (visits.drop(columns=[name, "device"]), f"new.csv has no columns {name!r}, 'device' that"),
        (odd, f"The column {name!r} should hold numbers, but row 501 holds 'big'"),
        (visits.head(0), "new.csv has columns and no rows"),
    ]:
        table.to_csv(new, index=False)
        result = call(*arguments)
        assert result.returncode == 1
        assert message in result.stderr
        assert str(new) in result.stderr
        assert str(out) not in result.stderr
    visits.assign(score=1).to_csv(new, index=False)
    assert "the output has one of that name" in call(*arguments, "--keep", "score").stderr
    assert "has no column 'x' to keep" in call(*arguments, "--keep", "x").stderr
    (tmp_path / "m.unbag").write_bytes((folder / "model.unbag").read_bytes()[:-100])
    arguments[1] = tmp_path / "m.unbag"
    assert "or its end is missing" in call(*arguments).stderr
    assert out.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"s.csv", "new.csv", "m.unbag"}


@pytest.mark.filterwarnings("ignore:the model was trained on")
def test_more_than_two_classes(call, tmp_path):
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(3), 20)
    bag = np.repeat(np.arange(20), 40)
    label = np.array([rng.choice(3, p=shares[b]) for b in bag])
    X = rng.normal(size=(800, 2)) + 2 * np.array([[0, 0], [2, 0], [0, 2]])[label]
    counts = np.array([np.bincount(label[bag == b], minlength=3) for b in range(20)])
    people = pd.DataFrame(X, columns=["x", "y"]).assign(ward=bag)
    people.to_csv(tmp_path / "p.csv", index=False)
    results = pd.DataFrame(counts, columns=["left", "centre", "right"]).assign(ward=range(20))
    results.to_csv(tmp_path / "r.csv", index=False)
    known = ["--bag", "ward", "--positives", "left,centre,right"]
    tables, model = [tmp_path / "p.csv", tmp_path / "r.csv"], tmp_path / "m.unbag"
    result = call("fit", *tables, *known, "--model", "linear", "--folds", 2, "-o", model)
    assert result.returncode == 0, result.stderr
    assert "recall of centre" in result.stdout
    result = call("predict", model, tables[0], "-o", tmp_path / "s.csv")
    assert result.returncode == 0, result.stderr
    found = pd.read_csv(tmp_path / "s.csv")
    assert list(found)[1:3] == ["class", "score_left"]
    names = np.array(["left", "centre", "right"])
    assert (found["class"] == names[label]).mean() > 0.8
    np.testing.assert_allclose(found.filter(like="probability_").sum(axis=1), 1)
    assert "recall of right" in call("evaluate", model, *tables, *known).stdout
    result = call("evaluate", model, *tables, "--bag", "ward", "--positives", "left")
    assert "has 3 classes, and" in result.stderr


def test_models_of_other_origin(call, tmp_path):
    data = make_gaussian_bags(random_state=0)
    frame = pd.DataFrame(data.X, columns=["a", "b"])
    frame.to_csv(tmp_path / "new.csv", index=False)
    model = LLPClassifier(kernel=None).fit(frame, data.y)
    path, out = tmp_path / "m.unbag", tmp_path / "s.csv"
    save_model(model, path, schema=make_schema(frame).to_dict())
    assert call("predict", path, tmp_path / "new.csv", "-o", out).returncode == 0
    assert list(pd.read_csv(out)) == ["class", "score", "probability"]
    save_model(model, path)
    assert "does not say which columns" in call("predict", path, frame, "-o", out).stderr


MEMORY = """
import resource, sys
from unbag.cli import main
assert main(["predict", *sys.argv[1:], "--chunk-rows", "10000"]) == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_memory_does_not_grow_with_the_rows(folder, frames, tmp_path):
    peaks = []
    for copies in (20, 300):
        new = tmp_path / f"{copies}.parquet"
        pd.concat([frames[0]] * copies).to_parquet(new, row_group_size=10_000)
        call = [
            sys.executable,
            "-c",
            MEMORY,
            folder / "model.unbag",
            new,
            "-o",
            tmp_path / "s.arrow",
        ]
        peaks.append(float(subprocess.run(call, check=True, capture_output=True).stdout))
    # 168,000 more rows would be some 45 MB as frames, features and scores
    assert peaks[1] - peaks[0] < 20


def test_probabilities_are_for_the_population_asked_for(call, folder, frames, tmp_path):
    model = load_model(folder / "model.unbag").model
    arguments = ["predict", folder / "model.unbag", folder / "visits.csv.gz"]
    result = call(*arguments, "-o", tmp_path / "s.csv", "--class-prior", "0.2")
    assert result.returncode == 0, result.stderr
    assert "Predicted class: positive above a probability of 0.2, which maximises" in result.stderr
    found = open_table(tmp_path / "s.csv").read()
    expected = model.predict_proba(frames[0], class_prior=[0.8, 0.2])[:, 1]
    np.testing.assert_allclose(found["probability"], expected, atol=1e-9)
    result = call(*arguments, "-o", tmp_path / "t.csv", "--threshold", "0.9")
    assert "above a probability of 0.9, as specified." in result.stderr
    found = open_table(tmp_path / "t.csv").read()
    np.testing.assert_array_equal(found["class"], found["probability"] > 0.9)


def test_probabilities_of_known_bags_add_up_to_their_counts(call, folder, tmp_path):
    arguments = ["predict", folder / "model.unbag", folder / "visits.csv.gz", "--keep", "id"]
    result = call(*arguments, "-o", tmp_path / "s.csv", "--bag-totals", folder / "regions.csv")
    assert result.returncode == 0, result.stderr
    found = open_table(tmp_path / "s.csv").read()
    counts = open_table(folder / "regions.csv").read().set_index("region")["conversions"]
    sums = found.groupby("region")["probability"].sum()
    np.testing.assert_allclose(sums, counts[sums.index], atol=1e-6)


def test_rows_of_bags_without_counts_may_keep_what_the_model_says_of_them(call, folder, tmp_path):
    known = open_table(folder / "regions.csv").read()[:5]
    known.to_csv(tmp_path / "some.csv", index=False)
    arguments = ["predict", folder / "model.unbag", folder / "visits.csv.gz", "--keep", "id"]
    args = ["--bag-totals", tmp_path / "some.csv", "-o", tmp_path / "s.csv"]
    result = call(*arguments, *args)
    assert result.returncode == 1
    assert "use --unmatched keep for what the model says of their rows alone, or drop" in (
        result.stderr
    )
    assert not (tmp_path / "s.csv").exists()
    result = call(*arguments, *args, "--unmatched", "keep")
    assert result.returncode == 0, result.stderr
    assert "Probabilities in the population of the training bags: " in result.stderr
    assert call(*arguments, "-o", tmp_path / "alone.csv").returncode == 0
    found, alone = (open_table(tmp_path / name).read() for name in ("s.csv", "alone.csv"))
    assert found["id"].tolist() == alone["id"].tolist()
    counts = known.set_index("region")["conversions"]
    sums = found.groupby("region")["probability"].sum()
    np.testing.assert_allclose(sums[counts.index], counts, atol=1e-6)
    others = ~found["region"].isin(counts.index)
    pd.testing.assert_frame_equal(found[others], alone[others])


def test_of_several_classes_the_most_probable_is_taken_and_it_is_said(call, tmp_path):
    data = make_gaussian_bags(n_bags=20, bag_size=12, n_classes=3, random_state=0)
    rows = pd.DataFrame(data.X, columns=["x", "z"]).assign(bag=data.y["bag"])
    rows.to_csv(tmp_path / "v.csv", index=False)
    counts = pd.crosstab(rows["bag"], data.labels).reset_index()
    counts.columns = ["bag", "a", "b", "c"]
    counts.to_csv(tmp_path / "r.csv", index=False)
    args = ["--bag", "bag", "--positives", "a,b,c", "--model", "linear", "--folds", "2"]
    fit = ["fit", tmp_path / "v.csv", tmp_path / "r.csv", *args, "-o", tmp_path / "m.unbag"]
    assert "Predicted class: the most probable, which maximises accuracy." in call(*fit).stderr
    result = call(*fit, "--threshold-metric", "balanced")
    assert result.returncode == 2
    assert "--threshold-metric balanced is for two classes; with more" in result.stderr
    for more in [], ["--class-prior", "0.8,0.1,0.1"], ["--bag-totals", tmp_path / "r.csv"]:
        arguments = ["predict", tmp_path / "m.unbag", tmp_path / "v.csv", "-o", tmp_path / "s.csv"]
        result = call(*arguments, *more)
        assert "Predicted class: the most probable, which maximises accuracy." in result.stderr
        found = open_table(tmp_path / "s.csv").read()
        probabilities = found[["probability_a", "probability_b", "probability_c"]].to_numpy()
        assert found["class"].tolist() == [*np.array([*"abc"])[probabilities.argmax(axis=1)]]


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """A model of bags that differ by more than their rows, its tables, and the counts."""
    rng = np.random.default_rng(0)
    place = tmp_path_factory.mktemp("uneven")
    region = np.repeat(np.arange(40), 30)
    x = rng.normal(size=1200) + rng.normal(size=40)[region]
    sold = rng.random(1200) < 1 / (1 + np.exp(-x - 1.5 * rng.normal(size=40)[region]))
    pd.DataFrame({"region": region, "x": x}).to_csv(place / "visits.csv", index=False)
    counts = pd.DataFrame({"region": range(40), "sold": np.bincount(region, sold)})
    counts.to_csv(place / "regions.csv", index=False)
    tables = [str(place / "visits.csv"), str(place / "regions.csv")]
    asked = ["--bag", "region", "--positives", "sold", "--model", "linear", "--folds", "0"]
    assert main(["fit", *tables, *asked, "-o", str(place / "model.unbag")]) == 0
    return place, counts.set_index("region")["sold"]


def sums_of_known_bags(call, place, table, tmp_path, *more):
    arguments = ["predict", place / "model.unbag", place / "visits.csv", "--bag-totals"]
    result = call(*arguments, table, "-o", tmp_path / "s.csv", *more)
    assert result.returncode == 0, result.stderr
    return open_table(tmp_path / "s.csv").read().groupby("region")["probability"].sum()


def test_probabilities_add_up_where_bags_differ_by_more_than_their_rows(call, uneven, tmp_path):
    place, counts = uneven
    sums = sums_of_known_bags(call, place, place / "regions.csv", tmp_path)
    np.testing.assert_allclose(sums, counts, atol=1e-6)


def test_known_bags_have_the_noise_of_the_fit(call, uneven, tmp_path):
    place, counts = uneven
    noisy = counts + np.random.default_rng(1).normal(0, 3, len(counts))
    pd.DataFrame({"region": noisy.index, "sold": noisy}).to_csv(tmp_path / "n.csv", index=False)
    found = load_model(place / "model.unbag")

    def error(noise):
        fitted = found.metadata["fitted_with"] | {"noise": noise}
        metadata = found.metadata | {"fitted_with": fitted}
        save_model(found.model, tmp_path / "m.unbag", schema=found.schema, metadata=metadata)
        arguments = [
            "predict",
            tmp_path / "m.unbag",
            place / "visits.csv",
            "-o",
            tmp_path / "s.csv",
        ]
        result = call(*arguments, "--bag-totals", tmp_path / "n.csv")
        if noise is None:
            assert "give its standard deviation by --noise" in result.stderr
            return None
        sums = open_table(tmp_path / "s.csv").read().groupby("region")["probability"].sum()
        return float(((sums - counts) ** 2).mean())

    # nearer to the truth than what was published, and than the model alone would be
    assert error(3) < min(error(1e6), float(((noisy - counts) ** 2).mean()))
    error(None)


def test_shares_of_the_wrong_number_are_refused(call, folder, tmp_path):
    arguments = ["predict", folder / "model.unbag", folder / "visits.csv.gz"]
    result = call(*arguments, "-o", tmp_path / "s.csv", "--class-prior", "0.2,0.3")
    assert result.returncode == 1
    assert "class_prior must add up to 1, and [0.2, 0.3] to 0.5" in result.stderr


def test_columns_that_leave_the_range_of_training_are_named(call, folder, frames, tmp_path):
    visits = frames[0].copy()
    first = next(name for name in visits if pd.api.types.is_float_dtype(visits[name]))
    low, high = visits[first].min(), visits[first].max()
    visits.loc[:59, first] = high + 1
    new = tmp_path / "new.parquet"
    visits.to_parquet(new)
    arguments = ["predict", folder / "model.unbag", new, "-o", tmp_path / "s.csv"]
    result = call(*arguments, "--chunk-rows", 100)
    sentence = f"leaves the range of training ({low:g} to {high:g}) in 11% of rows"
    assert [line for line in result.stderr.splitlines() if sentence in line]
    found = json.loads(call(*arguments, "--json").stdout)
    n_known = visits[first].notna().sum()
    assert found["outside_of_training"] == {first: pytest.approx(60 / n_known)}
    same = call(
        "predict", folder / "model.unbag", folder / "visits.parquet", "-o", tmp_path / "t.csv"
    )
    assert "range of training" not in same.stderr


def test_formulas_are_escaped_on_request(call, folder, frames, tmp_path):
    visits = frames[0].head(20).assign(note="=HYPERLINK(1)", change="-5")
    visits.to_csv(tmp_path / "v.csv", index=False)
    out, keep = tmp_path / "s.csv", ["--keep", "note,change"]
    for option, expected in (([], "=HYPERLINK(1)"), (["--escape-formulas"], "'=HYPERLINK(1)")):
        result = call(
            "predict", folder / "model.unbag", tmp_path / "v.csv", "-o", out, *keep, *option
        )
        assert result.returncode == 0, result.stderr
        scores = pd.read_csv(out)
        assert set(scores["note"]) == {expected}
        assert set(scores["change"]) == {-5}
