"""Numbers that change what a user gets and are not parameters, each with its reason and its study.

They are printed as one table in docs/reference/defaults.md. What is not here is a size of blocks,
a tolerance of rounding or a limit of iterations.
"""

# --- the mixed model ------------------------------------------------------------------------------

PRIOR_SD = 0.5
"""Standard deviation that the weak prior of a term's variance is about: of coefficients of standardised columns, and of levels."""

KERNEL_PRIOR_SD = 1.0
"""The same for the whole function of the kernel term. With 2, AUC is higher on images and lower where data are linear."""

PRIOR_WEIGHT = 0.5
"""Number of coefficients that this prior is worth. With 1 or 2, log-loss is 0.009 to 0.012 higher on tables that it was not chosen on."""

FEWEST_DEGREES = 3.0
"""Fewest degrees of freedom of intervals. With fewer, t quantiles grow without bound. | coverage"""

MOST_COEFFICIENTS = 1500
"""Most coefficients with a full covariance and standard errors. Its memory grows with their square. | scaling"""

LANDMARK_CANDIDATES = 10
"""Candidates per landmark of the kernel, for k-means++. More candidates change nothing visible."""

KERNEL_LEFT_OUT = 1e-4
"""Proportion of the variance of kernel features that is dropped, for fewer columns."""

MISFIT = 0.2
"""Prior standard deviation of the relative error of slopes, when bag effects are estimated. | coverage"""

BAG_EFFECT_SD = 0.5
"""Standard deviation of the half-normal prior of τ, that of random intercepts. With 1, classes that are far apart in 16 bags of 15 rows are taken for bag effects. | coverage"""

EXACT_SIZE = 16
"""Bags of two classes with at most this many rows are summed exactly; for larger ones the gradient of the saddlepoint approximation errs by 4e-4 on average. | saddle_point"""

# --- boosted trees --------------------------------------------------------------------------------

NUM_LEAVES = (2, 4, 8, 16)
"""Numbers of leaves that held-out bags choose from: stumps for additive effects, more for interactions. | boosted"""

MORE_TO_COME = 3
"""A number of leaves is given up if this many times its last gain would not reach the best. Saves time; the choice hardly changes. | boosted_choices"""

# --- networks -------------------------------------------------------------------------------------

LARGEST_INPUT = 3.0
"""Columns are centred and scaled by quartiles, then compressed to z/√(1 + (z/3)²), so heavy tails do not dominate the first layer. Compared with standardising, AUC changes by +0.059 and +0.062 on flights, +0.002 on votes, +0.012 on demographics and −0.005 on stops (two splits each)."""

FEWEST_HELD_OUT = 2
"""Fewest held-out bags for early stopping. With fewer, there is none. | network_defaults"""

# --- features of tables ---------------------------------------------------------------------------

FEWEST_ROWS = 5
"""Fewest rows of a word or category with a feature of its own. Rarer categories share one."""

FEWEST_WORDS = 3.0
"""Text is free text if its values have this many words on average."""

MOST_WORDS = 20_000
"""Words of a column with tf-idf weights, the most frequent ones."""

MOST_COMPONENTS = 50
"""Components of the tf-idf weights of a free-text column in the mixed model."""

# --- evaluation -----------------------------------------------------------------------------------

MAX_SLOPE_RATIO = 3.0
"""Sensitivity range: log-odds within bags may be this many times smaller or larger than fitted. | evaluation_designs"""

FEWEST_BAGS = 5
"""Fewest bags with which a bag effect is estimated. | effect_intervals"""

LEAST_CONTRAST = 1.05
"""If the slopes that the two assumptions predict are closer than this ratio, they cannot separate them. | evaluation_designs"""

DOUBTED = 0.05
"""P-value below which a check makes an assumption inconclusive. | evaluation_designs"""

REJECTED = 0.001
"""P-value below which a check rejects an assumption. | evaluation_designs"""

EFFECT_DOUBTED = 1.28
"""Standard errors of the bag effect above which covariate shift is inconclusive: counts cannot show whether the effect is correlated with the scores. | evaluation_designs"""

LARGE_DEVIATION = 0.5
"""Deviation, in standard deviations within a class, that a useful test of label shift must detect. | assumption"""

SEPARATED = 2.58
"""Standard errors above which scores are related to the proportions (1%, two-sided). | assumption"""

FEWEST_LABELS = 5
"""Fewest labels per class for estimates from labels. | labelled"""
