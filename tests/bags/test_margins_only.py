"""Group totals and outcome totals of bags, without rows."""

import numpy as np
import pandas as pd
import pytest

from unbag import LLPClassifier, bags_from_frame, bags_from_margins

GROUPS = ["young", "middle", "old"]


def precincts(n_bags=60, seed=0):
    rng = np.random.default_rng(seed)
    members = rng.integers(20, 200, (n_bags, 3))
    members[0, 1] = 0
    votes = rng.binomial(members, [0.7, 0.4, 0.1]).sum(axis=1)
    table = pd.DataFrame(members, columns=GROUPS)
    return table.assign(precinct=np.arange(n_bags), yes=votes, no=members.sum(axis=1) - votes)


def test_margins_are_the_rows_of_their_groups():
    table = precincts()
    X, y = bags_from_margins(table, on="precinct", members=GROUPS, positives="yes")
    assert len(X) == 3 * 60 - 1
    rows = X.loc[X.index.repeat(y["multiplicity"])].assign(
        precinct=np.repeat(y["bag"], y["multiplicity"])
    )
    X_rows, y_rows = bags_from_frame(rows, table, on="precinct", positives="yes")
    model, other = (LLPClassifier(kernel=None).fit(*data) for data in ((X, y), (X_rows, y_rows)))
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.covariance_, other.covariance_, rtol=1e-9)
    shares = model.predict_proba(pd.DataFrame({"group": GROUPS}))[:, 1]
    np.testing.assert_allclose(shares, [0.7, 0.4, 0.1], atol=0.05)


def test_two_tables_several_outcomes_and_features_of_bags():
    table = precincts().assign(income=lambda t: t.precinct % 7)
    groups, outcomes = table[["precinct", "income", *GROUPS]], table[["precinct", "yes", "no"]]
    X, y = bags_from_margins(
        groups,
        outcomes[::-1],
        on="precinct",
        members=GROUPS,
        positives=["no", "yes"],
        features=["income"],
        name="age",
    )
    assert list(X.columns) == ["income", "age"]
    _, wide = bags_from_margins(table, on="precinct", members=GROUPS, positives="yes")
    np.testing.assert_allclose(y["proportion"][:, 1], wide["proportion"])


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (["old", "old"], "'old' twice"),
        (["old", "precinct"], "'precinct', which is not a group size"),
        ("old", "two or more groups"),
    ],
)
def test_groups_have_columns_of_their_own(members, message):
    with pytest.raises(ValueError, match=message):
        bags_from_margins(precincts(), on="precinct", members=members, positives="yes")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"no": 5000}, r"'no', 'yes'.*0 \("),
        ({"old": -1}, r"'old'.*row 1 holds -1"),
        ({"old": 1.5}, r"'old'.*row 1 holds 1.5"),
        ({"old": "many"}, r"'old'.*row 1 holds 'many'"),
    ],
)
def test_margins_that_do_not_add_up_are_refused(change, message):
    table = precincts().assign(**change)
    with pytest.raises(ValueError, match=message):
        bags_from_margins(table, on="precinct", members=GROUPS, positives=["no", "yes"])


def test_hidden_outcomes():
    table = precincts()
    table["yes"] = ["<60" if count < 60 else str(count) for count in table["yes"]]
    with pytest.warns(UserWarning, match="'<60'"):
        X, y = bags_from_margins(table, on="precinct", members=GROUPS, positives="yes")
    model = LLPClassifier(kernel=None).fit(X, y)
    shares = model.predict_proba(pd.DataFrame({"group": GROUPS}))[:, 1]
    np.testing.assert_allclose(shares, [0.7, 0.4, 0.1], atol=0.05)
