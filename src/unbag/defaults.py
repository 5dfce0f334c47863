"""Numbers that change what a user gets and are no parameters, each with its reason and its study.

They are printed as one table in docs/reference/defaults.md. What is not here is a size of blocks,
a tolerance of rounding or a limit of iterations.
"""

# --- the mixed model ------------------------------------------------------------------------------

FEWEST_DEGREES = 3.0
"""Degrees of freedom of intervals with hardly any informative bag. With fewer, t quantiles grow without sense. | coverage"""

MOST_COEFFICIENTS = 1500
"""Coefficients of which a covariance is computed; of more there are products only, and no standard deviations. Memory grows with its square. | scaling"""

LANDMARK_CANDIDATES = 10
"""Landmarks of the kernel are chosen by k-means++ among so many times as many rows. More changes nothing visible. |"""

KERNEL_LEFT_OUT = 1e-4
"""Share of the variance of kernel features that is left out, to have fewer columns. |"""

MISFIT = 0.2
"""Relative error of the slopes of f that is no evidence against either assumption, in the search for bag effects. | effect_intervals"""

LARGEST_BAG_EFFECT = 4.0
"""Largest variance τ² of random intercepts: bags would differ from nearly none to nearly all. |"""

EXACT_SIZE = 16
"""Bags of two classes and at most so many rows are summed exactly; the saddlepoint approximation is exact to 1e-4 beyond. | saddle_point"""

# --- boosted trees --------------------------------------------------------------------------------

NUM_LEAVES = (2, 4, 8, 16)
"""Leaves to choose from by held-out bags: stumps for effects that add up, more for interactions. | boosted"""

MORE_TO_COME = 3
"""Trees of a number of leaves are given up if so many times their last gain would not reach the best. Saves time; the choice hardly changes. | boosted_choices"""

# --- networks -------------------------------------------------------------------------------------

LARGEST_INPUT = 3.0
"""Columns are centred and scaled by quartiles and bent to z/√(1 + (z/3)²): heavy tails no longer rule the first layer. AUC on flights .882 and .892 where standardised columns have .823 and .830, votes +.002, demographics +.012, stops −.005 (two splits each). |"""

FEWEST_HELD_OUT = 2
"""Held-out bags for early stopping; with fewer, stopping would be random, so there is none. | network_defaults"""

# --- features of tables ---------------------------------------------------------------------------

FEWEST_ROWS = 5
"""Rows that a word or a category must be in to have a feature of its own; rarer categories are one. |"""

FEWEST_WORDS = 3.0
"""Text is free text if its values have so many words on average. |"""

MOST_WORDS = 20_000
"""Words of a column that have tf-idf weights, the most frequent ones. |"""

MOST_COMPONENTS = 50
"""Components of tf-idf weights that the mixed model is given of a column of free text. |"""

# --- evaluation -----------------------------------------------------------------------------------

MAX_SLOPE_RATIO = 3.0
"""Sensitivity range: log-odds within bags may be so many times smaller or larger than fitted. | evaluation_designs"""

FEWEST_BAGS = 5
"""Bags without which no bag effect is estimated: its slope and its variance need some to vary. | effect_intervals"""

LEAST_CONTRAST = 1.05
"""Slopes that the two assumptions expect, if closer together than this ratio, cannot tell them apart. | evaluation_designs"""

DOUBTED = 0.05
"""P-value of a check below which an assumption is at least inconclusive. | evaluation_designs"""

REJECTED = 0.001
"""P-value of a check below which an assumption is rejected, and not only inconclusive. | evaluation_designs"""

EFFECT_DOUBTED = 1.28
"""Standard errors of the bag effect from which on covariate shift is inconclusive: counts cannot tell whether it is correlated with the scores. | evaluation_designs"""

LARGE_DRIFT = 0.5
"""Standard deviations within a class: a test that would miss a drift of this size could not fail. | assumption"""

SEPARATED = 2.58
"""Standard errors from which on scores follow the proportions at all (1% two-sided). | assumption"""

FLATTENED = 10.0
"""Variance of the ratio that noise in the proportions may leave, in multiples of that without noise. | assumption"""

FEWEST_LABELS = 5
"""Labels of each class without which labelled estimates are refused. | labelled"""

SLOPE_UNKNOWN = 1.0
"""Relative standard error from which on a slope says nothing, in monitoring. | monitoring"""
