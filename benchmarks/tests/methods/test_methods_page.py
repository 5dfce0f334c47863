"""docs/explanation/published-methods.md: every method has its row, and every call that it names trains."""

import re
import warnings
from pathlib import Path

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import unbag
import unbag.models
import unbag.paper
import unbag_bench.methods
from unbag.datasets import make_gaussian_bags
from unbag.models.neural import LLPNeuralClassifier
from unbag_bench.methods import PUBLISHED
from unbag_bench.methods.published_methods import EasyLLP

PAGE = (Path(__file__).parents[3] / "docs" / "explanation" / "published-methods.md").read_text(
    encoding="utf-8"
)
CALL = re.compile(r"`([A-Z]\w+\([^`]*\))`")
NAMES = {
    **{name: getattr(unbag, name) for name in unbag.__all__},
    **vars(unbag.paper),
    **vars(unbag_bench.methods),
    "EasyLLP": EasyLLP,
    "GaussianNB": GaussianNB,
    "LogisticRegression": LogisticRegression,
    "LLPNeuralClassifier": LLPNeuralClassifier,
    "RandomForestClassifier": RandomForestClassifier,
}
# What many settings show, a few do as well.
SMALLER = {
    "alphas": (1e-2,),
    "cv": 2,
    "Cs": (1,),
    "C_bags": (1,),
    "epsilons": (0.01,),
    "gammas": (0.1,),
    "max_epochs": 2,
    "estimator__n_estimators": 5,
    "num_leaves": (2,),
}
DATA = make_gaussian_bags(n_bags=12, bag_size=10, random_state=0)


def rows():
    """Rows of the tables of methods, in cells."""
    part = PAGE.split("## Systems that Scott and Zhang (2020) cite")[1].split("## Differences")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    return [row for row in cells if row[0].strip() not in ("system", "method", "---")]


CALLS = sorted(set(CALL.findall(PAGE)))


@pytest.mark.parametrize("call", CALLS)
def test_every_call_trains(call):
    model = eval(call, dict(NAMES))
    given = {n: v for n, v in SMALLER.items() if n in model.get_params() and n not in call}
    with warnings.catch_warnings():
        # two epochs are not meant to be enough
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(**given).fit(DATA.X, DATA.y)
    assert set(model.predict(DATA.X)) <= {0, 1}


def test_every_row_says_what_the_method_is_here():
    assert len(rows()) > 40
    for row in rows():
        assert len(row) == 4, row
        here = row[-1].strip()
        assert here, row[0]
        assert "`" in here or here.startswith(("not built", "the same", "features")), row[0]


def test_every_published_method_has_a_row():
    named = {name for call in CALLS for name in PUBLISHED if f'("{name}")' in call}
    assert named == set(PUBLISHED)


def test_every_system_that_the_paper_cites_has_a_row():
    """By author and year, from its introduction and section on related work."""
    cited = """Rüping 2010; Yu et al. 2013; Wang et al. 2015; Qi et al. 2017; Chen et al. 2017;
    Lai et al. 2014; Shi et al. 2017; Kück and de Freitas 2005; Hernández-González et al. 2013;
    Sun et al. 2017; Poyiadzi et al. 2018; Li and Taylor 2015; Ardehaly and Culotta 2017;
    Dulac-Arnold et al. 2019; Liu et al. 2019; Tsai and Lin 2020; Chen et al. 2009;
    Stolpe and Morik 2011; Shi et al. 2018; Chen et al. 2014; Dery et al. 2018; Ding et al. 2017;
    Bortsova et al. 2018; Quadrianto et al. 2009; Patrini et al. 2014; Yu et al. 2015"""
    papers = " ".join(row[1] for row in rows())
    for paper in re.split(r";\s+", cited):
        assert paper in papers, paper


def test_snippet_runs():
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    names = {}
    exec(snippet, names)
    assert names["names"] == sorted(PUBLISHED)
    assert (names["model"].predict(names["data"].X) == names["data"].labels).mean() > 0.8
