"""What `benchmarks/large_bags.py` says of rules is what linear models choose by."""

import numpy as np
import pytest

from unbag import LLPLinearClassifierCV
from unbag.datasets import make_gaussian_bags
from unbag.models.training import choose
from unbag_bench.studies.large_bags import ALPHAS, RANKS, choices
from unbag_bench.studies.selection import search_all


@pytest.mark.parametrize("seed", range(3))
def test_the_rule_of_the_study_is_that_of_the_model(seed):
    data = make_gaussian_bags(n_bags=8, bag_size=150, n_features=4, random_state=seed)
    settings = {"class_prior": "empirical", "bag_effect": 0}
    searched = search_all(LLPLinearClassifierCV(**settings), data.X, data.y, ALPHAS, 5)
    found = searched.found
    held_out = np.stack([found.solved.out_of_fold_scores(p) for p in range(len(ALPHAS))])
    variance = data.X.var(axis=0).sum()
    chosen = choices(held_out, searched.bags, searched.goal.class_prior, variance)
    model = LLPLinearClassifierCV(**settings).fit(data.X, data.y)
    assert model.alpha_ == ALPHAS[chosen["prior, over dispersion"]]
    assert chosen[RANKS] == choose(found.risks)
