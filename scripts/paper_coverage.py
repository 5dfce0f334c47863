"""What of the paper is where: every numbered or named item, its code and its tests.

    python scripts/paper_coverage.py        # writes docs/project/coverage.md

A test checks that the page is up to date, that nothing of the paper is missing, and that every
function and test that is named exists.
"""

from __future__ import annotations

from pathlib import Path
from posixpath import normpath
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "project" / "coverage.md"


class Item(NamedTuple):
    """An item of the paper; code is ``module:name``, a test ``file:name`` below tests."""

    section: str
    name: str
    code: tuple[str, ...]
    tests: tuple[str, ...]


B = "unbag.paper.bounds."

ITEMS = (
    Item("1", "notation: loss, |ℓ|, |ℓ|₀, balanced error", ("unbag.observations.losses:Loss",), (
        "observations/test_losses.py:test_lipschitz_constant_holds_and_is_the_smallest",
        "observations/test_losses.py:test_at_zero_is_the_loss_of_a_score_of_zero",
    )),
    Item("2", "(IIM)", (B + "contamination:sample_bags",), (
        "paper/bounds/test_contamination.py:"
        "test_single_instances_come_from_the_mixture_and_from_their_class",
    )),
    Item("2", "(IBM)", (B + "contamination:sample_bags",), (
        "paper/bounds/test_contamination.py:test_instances_of_a_bag_depend_and_bags_do_not",
    )),
    Item("2.1", "mutual contamination models", (B + "contamination:MultiMCM",), (
        "paper/bounds/test_contamination.py:test_risk_of_pairs_is_the_corrected_risk",
    )),
    Item("2.1", "loss ℓ^κ", (B + "contamination:unbiased_loss",), (
        "paper/bounds/test_contamination.py:test_coefficients_and_loss_agree_for_arrays",
    )),
    Item("2.1", "Proposition 1, unbiased loss", (B + "contamination:unbiased_coefficients",), (
        "paper/bounds/test_contamination.py:test_unbiased_loss_has_the_clean_risk",
        "paper/bounds/test_contamination.py:test_any_unbiased_loss_is_that_one_up_to_a_constant",
    )),
    Item("2.1", "Proposition 2, unbiased estimate", (B + "contamination:MultiMCM.risk",), (
        "paper/bounds/test_contamination.py:test_estimated_risk_is_unbiased_under_every_model",
    )),
    Item("2.2", "Ê_w over several models", (
        B + "contamination:MultiMCM.pair_risks", "unbag.paper.weights:pair_weights",
    ), (
        "paper/test_weights.py:test_pair_weights_give_the_risk_of_the_paper",
    )),
    Item("2.2", "Definition 3, complexity R^I", (B + "complexity:rademacher_complexity",), (
        "paper/bounds/test_complexity.py:test_estimate_agrees_with_all_signs_and_stays_below_its_bound",
    )),
    Item("2.2", "Definition 3, complexity R^B", (B + "complexity:rademacher_complexity",), (
        "paper/bounds/test_complexity.py:test_estimate_agrees_with_all_signs_and_stays_below_its_bound",
    )),
    Item("2.2", "(SR)", (B + "complexity:FunctionClass",), (
        "paper/bounds/test_complexity.py:test_bounds_of_the_whole_space_replace_those_of_the_data",
    )),
    Item("2.2", "Proposition 4, kernels", (B + "complexity:RKHSBall",), (
        "paper/bounds/test_complexity.py:test_supremum_over_the_ball_is_that_found_numerically",
        "paper/bounds/test_tables.py:test_constants_of_the_gaussian_kernel_need_no_data",
    )),
    Item("2.2", "Proposition 4, networks", (B + "complexity:TwoLayerReLU",), (
        "paper/bounds/test_complexity.py:test_networks_stay_below_their_bound_and_attain_a",
        "paper/bounds/test_tables.py:test_networks_have_a_bound",
    )),
    Item("2.2", "Theorem 5, bound under (IIM)", (B + "generalization:generalization_bound",), (
        "paper/bounds/test_generalization.py:test_bound_holds_over_the_whole_class",
        "paper/bounds/test_generalization.py:test_deviation_holds_and_could_hardly_be_smaller",
    )),
    Item("2.2", "Theorem 5, bound under (IBM)", (B + "generalization:generalization_bound",), (
        "paper/bounds/test_generalization.py:test_bound_holds_over_the_whole_class",
        "paper/bounds/test_generalization.py:test_step_printed_for_independent_bags_is_too_small",
    )),
    Item("2.2", "best weights, harmonic and arithmetic mean", (
        B + "generalization:GeneralizationBound",
    ), (
        "paper/bounds/test_generalization.py:test_optimal_weights_are_those_found_numerically",
        "paper/bounds/test_generalization.py:test_forms_agree_with_direct_evaluation",
    )),
    Item("3", "(CIIM)", (B + "contamination:sample_bags",), (
        "paper/bounds/test_common_coin.py:test_bags_that_we_draw_are_independent_with_their_labels",
        "paper/bounds/test_common_coin.py:test_step_on_contrasts_fails_with_one_coin_for_all_labels",
    )),
    Item("3", "(CIBM)", (B + "contamination:sample_bags",), (
        "paper/bounds/test_contamination.py:"
        "test_conditional_bag_model_sorts_labels_and_keeps_their_number",
        "paper/bounds/test_common_coin.py:test_every_printed_condition_holds",
    )),
    Item("3", "(CIBM')", (B + "contamination:sample_bags",), (
        "paper/bounds/test_contamination.py:"
        "test_single_instances_come_from_the_mixture_and_from_their_class",
    )),
    Item("3.1", "pairs of bags as models", (B + "contamination:MultiMCM.from_pairs",), (
        "paper/bounds/test_generalization.py:test_pairs_in_any_form",
    )),
    Item("3.1", "Algorithm 1, plug-in", (
        "unbag.paper.lmmcm:LMMCMClassifier", "unbag.paper.experiments:METHODS",
    ), (
        "paper/test_lmmcm.py:test_all_ways_to_weigh_bags_learn",
        "paper/test_lmmcm.py:test_the_published_settings",
        "paper/bounds/test_consistency.py:"
        "test_first_theorem_holds_for_observed_proportions_of_small_bags",
    )),
    Item("3.2", "misordered pairs, 0.26", (B + "merged:misordering_probability",), (
        "paper/bounds/test_planning.py:test_the_papers_example",
        "../benchmarks/tests/studies/test_consistency.py:test_bags_are_misordered_as_often_as_computed",
    )),
    Item("3.2", "blockwise-pairwise merging", ("unbag.paper.weights:blockwise_pairwise",), (
        "paper/test_merging.py:test_pairwise_puts_the_larger_of_every_two_neighbours_on_one_side",
    )),
    Item("3.2", "blockwise-max merging", ("unbag.paper.weights:blockwise_max",), (
        "paper/test_merging.py:test_max_puts_the_half_with_the_largest_proportions_on_one_side",
        "paper/test_merging.py:test_max_dominates_pairwise_in_every_block",
    )),
    Item("3.2", "Ẽ of merged bags", ("unbag.paper.weights:bag_weights",), (
        "paper/bounds/test_merged.py:test_risk_is_unbiased_given_the_labels",
    )),
    Item("3.2", "(LP)", (B + "merged:neighbour_condition",), (
        "paper/bounds/test_neighbours.py:test_bound_holds_as_often_as_it_says",
        "paper/bounds/test_neighbours.py:test_it_is_what_the_theorem_takes",
    )),
    Item("3.2", "Theorem 6, merged bags", (
        B + "merged:merged_bound", B + "merged:expected_contrasts",
    ), (
        "paper/bounds/test_merged.py:test_bound_holds_as_often_as_it_says",
        "paper/bounds/test_merged.py:test_contrasts_reach_what_the_theorem_says_as_often",
    )),
    Item("4", "sampling of bags", (
        "unbag.datasets.bagging:make_bags", "unbag.paper.experiments:Setting",
    ), (
        "paper/test_experiments.py:test_a_trial_has_the_size_and_proportions_of_the_paper",
    )),
    Item("4", "kernel width 1/(d Var X), penalties by 5 folds", (
        "unbag.paper.kernels:Kernel", "unbag.paper.lmmcm:LMMCMClassifierCV",
    ), (
        "paper/test_kernels.py:test_gamma_is_that_of_a_support_vector_machine",
        "paper/test_lmmcm.py:test_batched_search_equals_fits_one_by_one",
    )),
    Item("4", "InvCal", ("unbag.paper.invcal:InvCalClassifier",), (
        "paper/test_invcal.py:test_agrees_with_a_general_solver",
    )),
    Item("4", "alter-∝SVM", ("unbag.paper.alternating_svm:AlternatingSVMClassifier",), (
        "paper/test_alternating_svm.py:test_objective_is_what_is_written_down",
    )),
    Item("4", "Wilcoxon's test", ("unbag.paper.tables:comparisons",), (
        "paper/test_tables.py:test_comparison_is_wilcoxons_over_cells",
        "paper/test_tables.py:test_settings_that_both_tables_have_count_once",
    )),
    Item("4", "Table 1", ("unbag.paper.tables:markdown_tables",), (
        "paper/test_experiments.py:test_every_setting_has_published_figures",
    )),
    Item("4", "Table 2", ("unbag.paper.tables:markdown_tables",), (
        "paper/test_experiments.py:test_second_table_fixes_the_number_of_bags",
    )),
    Item("5", "several classes, future work", (
        "unbag.weights:decontamination_weights", B + "generalization:weights_bound",
    ), (
        "paper/test_corrected_risk.py:test_corrected_risk_of_three_classes_averages_to_the_true_risk",
        "paper/bounds/test_tables.py:test_variation_by_a_loop",
    )),
    Item("A", "failure of the proportion risk", (
        "unbag.paper.proportion_risk:ProportionRisk",
    ), (
        "test_examples.py:test_one_bag_gives_the_median_of_the_mixture",
        "test_examples.py:test_corrected_risk_chooses_better_than_epr",
    )),
    Item("B.1", "proof of Proposition 1", (B + "contamination:unbiased_coefficients",), (
        "paper/bounds/test_contamination.py:test_no_other_combination_of_the_two_losses_is_unbiased",
    )),
    Item("B.2", "Ledoux-Talagrand contraction", (B + "complexity:TwoLayerReLU",), (
        "paper/bounds/test_lemmas.py:test_contraction_of_absolute_values",
    )),
    Item("B.3", "bounded difference inequality", (B + "generalization:proved_factor",), (
        "paper/bounds/test_lemmas.py:test_bounded_differences",
    )),
    Item("B.3", "contraction lemma", (B + "generalization:proved_factor",), (
        "paper/bounds/test_lemmas.py:test_contraction_of_a_lipschitz_loss",
    )),
    Item("B.4", "correlated Chernoff bound", (B + "merged:required_epsilon",), (
        "paper/bounds/test_lemmas.py:test_chernoff_bound_of_correlated_indicators",
    )),
    Item("B.4", "Lemma, contrasts of blocks", (B + "merged:largest_epsilon",), (
        "paper/bounds/test_merged.py:test_contrasts_reach_what_the_theorem_says_as_often",
        "paper/bounds/test_contrasts.py:test_contrast_of_the_true_proportions_is_a_lower_bound",
    )),
    Item("B.4", "Lemma, Ẽ unbiased given the labels", (
        "unbag.paper.weights:bag_weights",
    ), (
        "paper/bounds/test_merged.py:test_risk_is_unbiased_given_the_labels",
        "paper/bounds/test_merged.py:test_risk_is_unbiased_when_instances_depend_on_each_other",
    )),
    Item("C", "symmetric losses, immunity", (
        B + "losses:is_symmetric", B + "losses:immunity_constants",
    ), (
        "paper/bounds/test_immunity.py:"
        "test_contaminated_risk_of_symmetric_losses_is_affine_in_the_clean_one",
    )),
    Item("D", "Proposition, convexity of ℓ^κ", (B + "losses:convexity_condition",), (
        "paper/bounds/test_immunity.py:test_convexity_condition_is_what_second_differences_say",
    )),
    Item("D", "convexity of Ê_w, open question", ("unbag.paper.weights:convex_priors",), (
        "paper/bounds/test_convexity.py:test_risk_is_convex_between_the_ends_and_nowhere_else",
        "paper/bounds/test_convexity.py:test_how_often_extreme_pairs_are_convex",
    )),
    Item("E", "(CIBM') implies (IBM)", (B + "contamination:sample_bags",), (
        "paper/bounds/test_contamination.py:"
        "test_single_instances_come_from_the_mixture_and_from_their_class",
    )),
    Item("F", "matching as an integer program", ("unbag.paper.weights:pair_matching",), (
        "paper/test_pairing.py:test_matching_equals_exhaustive_search",
    )),
    Item("F", "Proposition, extremes", ("unbag.paper.weights:pair_extremes",), (
        "paper/test_pairing.py:test_extremes_is_the_best_matching_of_equal_sizes",
    )),
    Item("G", "Theorem, schemes that dominate", (B + "merged:merged_bound",), (
        "paper/bounds/test_merged.py:test_bound_holds_as_often_as_it_says",
        "paper/test_merging.py:test_max_has_the_better_of_both_splits_for_bags_of_any_size",
    )),
    Item("G", "conjecture on blockwise-max", (
        B + "merged:expected_contrasts", B + "merged:merged_bound",
    ), (
        "paper/bounds/test_contrasts.py:test_contrast_of_blockwise_max_seldom_falls_short",
        "paper/bounds/test_merged.py:test_own_contrasts_of_blockwise_max_bound_sharper",
    )),
    Item("H", "calibration of the loss", (
        B + "losses:calibration_function", B + "losses:excess_error",
    ), (
        "paper/bounds/test_surrogate.py:test_errors_are_bounded_by_risks",
    )),
    Item("H", "Theorem, consistency", ("unbag.paper.lmmcm:LMMCMClassifier",), (
        "../benchmarks/tests/studies/test_consistency.py:test_error_goes_to_the_bayes_error",
        "paper/bounds/test_consistency.py:test_norm_of_the_minimiser",
        "paper/bounds/test_tables.py:"
        "test_variation_is_at_most_that_of_least_squares_as_a_sum_of_squares",
    )),
    Item("I", "grids of the competitors", ("unbag.paper.experiments:METHODS",), (
        "paper/test_experiments.py:test_every_method_gives_a_row",
    )),
    Item("I", "folds of equal proportions are left out", (
        "unbag.paper.lmmcm:LMMCMClassifierCV",
    ), (
        "paper/test_lmmcm.py:test_folds_whose_bags_are_alike_say_nothing",
    )),
)  # fmt: skip


def page() -> str:
    """Render the table in Markdown."""
    lines = [
        "# Scott and Zhang, item by item",
        "",
        "Every numbered or named item of Scott and Zhang (2020), appendix included, with its code and",
        "its tests. Some statements of the paper are wrong or can be sharpened:",
        "[where statement and proof differ](../theory/bounds.md#where-statement-and-proof-differ).",
        "",
        "| section | item | code | tests |",
        "| --- | --- | --- | --- |",
    ]
    for item in ITEMS:
        code = "<br>".join(f"`{name.replace(':', '.')}`" for name in item.code)
        tests = "<br>".join(_link(test) for test in item.tests)
        name = item.name.replace("|", "\\|")
        lines.append(f"| {item.section} | {name} | {code} | {tests} |")
    return "\n".join(lines) + "\n"


def _link(test: str) -> str:
    path, name = test.split(":")
    return f"[`{name}`]({normpath(f'../../tests/{path}')})"


if __name__ == "__main__":
    PAGE.write_text(page())
