r"""A few labels for truth, the bags for precision: estimates without an assumption on bags.

Let y_jc say whether row j is of class c, and p_jc be *imputations*: probabilities that add up to the counts
of every bag. Where the labels of some rows, drawn at random, are known, with w_j one over the
probability that row j was drawn,

    Σ_j p_jc h_j + Σ over labelled j of w_j (y_jc − p_jc)(h_j − c_b)

estimates Σ_j y_jc h_j without bias, whatever the imputations, for numbers c_b that may differ by bag:
in each bag imputations and labels have the same sum, so that these numbers cancel. (Survey sampling
calls it the difference estimator, machine learning prediction-powered inference.) The better the
imputations, the smaller the differences y − p, of which alone there is a sample. c_b is the mean of h
over the bag weighed by p(1 − p), which is best if the imputations are right.

Imputations are the probabilities of the labels given scores and counts (`unbag.observations.count_likelihood`),
with scores scaled by a number that is chosen by the labels. For the standard error it is chosen
in ten folds, so that no row takes part in choosing the imputation that it is compared with. Every measure is a
function of class means of such sums (`unbag.evaluation.identification.in_these_rows`), and the number of
rows of each class is known.

Which rows to label: a row of probabilities p adds to the error of a measure in proportion to the
deviation of Σ_c y_c a_c, where a_c is what the row changes if it is of class c. There the
probabilities are the model's own: scores are taken as log-odds, shifted in every bag to add up to
its counts.

Differences are skewed, since a few rows are far from their imputations, and a sample without
such a row gives estimates that are too high and too sure. Intervals are therefore those of Hall's cubic
transformation of Student's t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn.utils import check_random_state

from unbag._arrays import Bools, Floats, Ints
from unbag._checks import check_inside, check_positive
from unbag._outputs import by_output, probabilities_of_all
from unbag.bags.bags import Bags
from unbag.bags.targets import read_labels
from unbag.defaults import FEWEST_LABELS
from unbag.evaluation.identification import bounds_of, in_these_rows
from unbag.evaluation.measures import Area, Cost, Measure, Sample, get_measure, make_sample
from unbag.evaluation.uncertainty import Estimate
from unbag.observations.count_likelihood import LabelPosteriors

# How far scores, and ranks in their place, are scaled at most to become log-odds.
_SCALES = (0.0, 0.15, 0.3, 0.5, 0.75, 1.0, 1.4, 2.0, 2.8, 4.0, 6.0, 9.0)
_N_FOLDS = 10


@dataclass(frozen=True)
class LabelledEstimate(Estimate):
    """An estimate from labels and bags, and that from the labels alone."""

    alone: Estimate | None = None
    n_labels: int = 0


# Bags are left aside where they make an interval wider by more than this factor.
_WIDEST = 1.05

# The whole skewness of a sample overcorrects; with this much of it 95% intervals from 200 labels
# held the area in 93.5 to 98% of 200 draws on six sets of real bags (benchmarks/results/labelled.md).
_TRUSTED_SKEWNESS = 0.85


def enough_labels(bags: Bags) -> bool:
    """Whether some rows, but not all, have labels, and enough of every class to estimate from."""
    known = bags.labelled[bags.index]
    if known.all() or not known.any():
        return False
    held = bags.sizes[bags.labelled] @ bags.proportions[bags.labelled]
    return bool((held >= FEWEST_LABELS).all())


def estimates_from_labels(
    measures: Mapping[str, tuple[Measure, Sample]],
    confidence_level: float,
    labels: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> dict[str, LabelledEstimate]:
    """Estimate measures, each of a sample of its own, from bags and some labels drawn at random.

    By default labels are those given to `unbag.bag_target`, whose rows have left their bags.
    """
    found: dict[str, LabelledEstimate] = {}
    imputed: dict[int, tuple[Draw, Imputations]] = {}
    for name, (measure, sample) in measures.items():
        if id(sample) not in imputed:
            drawn = draw_of(sample, labels, weights)
            imputed[id(sample)] = drawn, fit_imputations(drawn, candidates(sample, drawn.bags))
        found[name] = from_draw(measure, sample, *imputed[id(sample)], confidence_level)
    return found


def from_draw(
    measure: Measure,
    sample: Sample,
    drawn: Draw,
    imputations: Imputations,
    confidence_level: float = 0.95,
) -> LabelledEstimate:
    """Estimate a measure from a draw of labelled rows and the bags."""
    limits = bounds_of(measure, sample, confidence_level)
    by_labels = _from_labels_alone(measure, sample, drawn)
    exact, found = (np.inf, -np.inf), []
    if measure.bounded:
        exact = _exact_limits(by_labels[0], drawn, confidence_level)
    for value, added, more in (_with_bags(measure, sample, drawn, imputations), by_labels):
        one = _interval(value, added, more, drawn, confidence_level, measure.bounded)
        ends = (one.value, min(one.low, exact[0]), max(one.high, exact[1]))
        inside = np.clip(ends, limits.low, limits.high).tolist()
        found.append(replace(one, value=inside[0], low=inside[1], high=inside[2]))
    with_bags, alone = found
    widths = [each.high - each.low for each in found]
    best = with_bags if widths[0] <= _WIDEST * widths[1] else alone
    return LabelledEstimate(**vars(best), alone=alone, n_labels=len(drawn.rows))


def _with_bags(
    measure: Measure, sample: Sample, drawn: Draw, imputations: Imputations
) -> tuple[float, Floats, float]:
    """Value, what each labelled row adds to its error, and the variance that noisy counts add."""
    function, bags = in_these_rows(measure), drawn.bags
    statistics, weight = function.statistics(sample), drawn.weights / drawn.weights.sum()
    means, centres, differences = _compare(imputations.probabilities, statistics, drawn)
    means = means + differences @ weight
    slopes = function.gradient(means, bags)
    by_row = np.empty(len(weight))
    for probabilities, unseen in imputations.folds:
        differences = _compare(probabilities, statistics, drawn)[2]
        by_row[unseen] = np.tensordot(slopes, differences[..., unseen], axes=2)
    added, noise = weight * (by_row - weight @ by_row), 0.0
    if bags.noise is not None:
        # noise moves a class mean by c_b less the mean, per row
        by_class = np.sum(slopes[..., None] * (centres - means[..., None]), axis=1)
        by_class *= bags.sizes / (bags.class_shares[:, None] * bags.n_instances)
        noise = float(np.einsum("cb,bcd,db->", by_class, bags.noise, by_class))
    return float(function.of_means(means, bags)), added, noise


def _compare(
    probabilities: Floats, statistics: Floats, drawn: Draw
) -> tuple[Floats, Floats, Floats]:
    """Class means by imputations, c_b, and N (y − p)(h − c_b) by class size of each labelled row."""
    bags, rows = drawn.bags, drawn.rows
    means, centres = imputed_means(probabilities, statistics, bags)
    residual = (drawn.of_class - probabilities[:, rows]) / bags.class_shares[:, None]
    apart = statistics[:, rows] - centres[:, :, bags.index[rows]]
    return means, centres, residual[:, None] * apart


def _from_labels_alone(
    measure: Measure, sample: Sample, drawn: Draw
) -> tuple[float, Floats, float]:
    """Estimate as if nothing but the labelled rows were known, and how common classes are."""
    # a sample of its own, in which each row stands for as many as its weight
    rows = Sample(drawn.bags, sample.scores[drawn.rows], posterior=drawn.of_class * drawn.weights)
    influence, by_row = measure.influence(rows), np.stack(list(rows.row_weights()))
    means = np.sum(influence * by_row, axis=1, keepdims=True)
    counts = drawn.of_class.sum(axis=1, keepdims=True)
    added = np.sum(by_row * (influence - means) * np.sqrt(counts / (counts - 1)), axis=0)
    return measure.value(rows), added, 0.0


def _interval(
    value: float, added: Floats, more: float, drawn: Draw, confidence_level: float, bounded: bool
) -> Estimate:
    """Turn what each row adds to the error into a standard error and an interval."""
    n, squares = len(added), float(np.sum(added**2))
    variance = n / (n - 1) * float(np.sum(np.maximum(1 - 1 / drawn.weights, 0) * added**2)) + more
    error = float(np.sqrt(variance))
    skewness = float(np.sum(added**3)) / squares**1.5 if squares > 0 else 0.0
    skewness *= _TRUSTED_SKEWNESS
    reach = float(stats.t.ppf((1 + confidence_level) / 2, n - 1))
    ends = np.array([reach, -reach])
    if abs(skewness) >= 1e-4:
        # Hall's cubic transformation
        ends = 3 / skewness * (np.cbrt(1 + skewness * (ends - skewness / 6)) - 1)
    low, high = (value - error * ends).tolist()
    return Estimate(value, error, low, high, confidence_level, bounded, "labels")


def _exact_limits(value: float, drawn: Draw, confidence_level: float) -> tuple[float, float]:
    """Clopper and Pearson's limits where labels show less than one error; else 1 and 0.

    Among n rows of the rarest class there are n independent pairs with others, so that limits of n
    trials hold for the area under the ROC curve as for rates.
    """
    sums, squares = (drawn.of_class @ drawn.weights**k for k in (1, 2))
    n, tail = float(np.min(sums**2 / squares)), (1 - confidence_level) / 2
    below, above = np.clip(n * (1 - value), 0, n), np.clip(n * value, 0, n)
    low = float(stats.beta.ppf(tail, n - below, below + 1)) if below < 1 else 1.0
    high = float(stats.beta.ppf(1 - tail, above + 1, n - above)) if above < 1 else 0.0
    return low, high


# --- imputations ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Draw:
    """The labelled rows, the bags that they are of, and one over the probability of each, summing to all rows."""

    rows: Ints
    labels: NDArray[np.int64]
    weights: Floats
    bags: Bags

    @cached_property
    def of_class(self) -> Floats:
        """Whether each row is of each class: shape (n_classes, n_labels)."""
        return (self.labels == np.arange(self.bags.n_classes)[:, None]).astype(float)


def draw_of(sample: Sample, labels: ArrayLike | None, weights: ArrayLike | None) -> Draw:
    """Read which rows were labelled, and how likely that was."""
    bags = sample.bags
    if labels is None:
        known = np.where(bags.labelled[bags.index], bags.proportions.argmax(axis=1)[bags.index], -1)
        bags = _all_in_one(bags)
    else:
        known = read_labels(labels)
        if len(known) != bags.n_instances:
            raise ValueError(f"There are {bags.n_instances} instances but {len(known)} labels.")
    rows = np.flatnonzero(known >= 0)
    if not len(rows):
        raise ValueError("No row has a label: give labels, with NaN for the rows without one.")
    if known.max() >= bags.n_classes:
        raise ValueError(f"Label {known.max()} is none of the {bags.n_classes} classes 0, 1, ...")
    counts = np.bincount(known[rows], minlength=bags.n_classes)
    if counts.min() < FEWEST_LABELS:
        raise ValueError(
            f"Of class {bags.class_names[counts.argmin()]} there are {counts.min()} labels, and at "
            f"least {FEWEST_LABELS} of every class are needed: label more rows."
        )
    n, each = bags.n_instances, np.ones(len(rows))
    if weights is not None:
        given = np.asarray(weights, dtype=float)
        if given.shape != (n,):
            raise ValueError(f"There are {n} instances but weights of shape {given.shape}.")
        each = given[rows]
        if not (np.isfinite(each) & (each > 0)).all():
            raise ValueError("The weight of a labelled row must be a positive number.")
    return Draw(rows, known[rows], each * (n / each.sum()), bags)


def _all_in_one(bags: Bags) -> Bags:
    """One bag of all rows: what is known where labelled rows have left their bags."""
    share = (bags.sizes / bags.n_instances)[:, None, None]
    return replace(
        bags,
        index=np.zeros(bags.n_instances, dtype=np.intp),
        ids=np.array(["all rows"], dtype=object),
        sizes=np.array([bags.n_instances]),
        proportions=bags.class_shares[None],
        labelled=np.zeros(1, dtype=bool),
        noise=None if bags.noise is None else np.sum(share**2 * bags.noise, axis=0)[None],
    )


class Imputations(NamedTuple):
    """The imputations under which all labels are likeliest, and those without each tenth of them."""

    probabilities: Floats  # (n_classes, n_instances)
    folds: list[tuple[Floats, Bools]]  # with the labelled rows that they were not chosen by


def candidates(sample: Sample, bags: Bags) -> list[Callable[[], Floats]]:
    """Imputations by scores, or their ranks, on several scales; each made when called."""
    scores = sample.scores
    columns = by_output(scores)
    middle, spread = np.median(columns), np.subtract(*np.quantile(columns, [0.75, 0.25]))
    spread = spread if spread > 0 else max(float(columns.std()), 1e-300)
    forms = [1.35 * (columns - middle) / spread]
    if scores.ndim == 1:
        place = (stats.rankdata(scores) - 0.5) / len(scores)
        forms.append(np.log(place / (1 - place))[None] / 1.8)
    posteriors = LabelPosteriors(bags)

    def impute(form: Floats, scale: float) -> Floats:
        return probabilities_of_all(posteriors(scale * form[None])[0])

    return [partial(impute, form, scale) for form in forms for scale in _SCALES]


def fit_imputations(drawn: Draw, choices: Sequence[Callable[[], Floats]]) -> Imputations:
    """Choose the imputations under which labels are likeliest, from all of them and in folds."""
    each = np.arange(len(drawn.rows))
    likelihood = np.empty((len(choices), len(each)))
    for number, impute in enumerate(choices):
        likely = impute()[:, drawn.rows][drawn.labels, each]
        likelihood[number] = drawn.weights * np.log(np.maximum(likely, 1e-9))
    fold = each % _N_FOLDS
    without = np.stack([np.sum(likelihood, axis=1, where=fold != f) for f in range(_N_FOLDS)])
    best = without.argmax(axis=1)[fold]
    chosen = int(likelihood.sum(axis=1).argmax())
    found = {number: choices[number]() for number in {chosen, *best.tolist()}}
    folds = [(found[number], best == number) for number in np.unique(best).tolist()]
    return Imputations(found[chosen], folds)


def imputed_means(imputation: Floats, statistics: Floats, bags: Bags) -> tuple[Floats, Floats]:
    """Class means (n_classes, n_statistics), corrected where imputations miss the counts, and c_b."""
    weight = imputation * (1 - imputation)
    total = np.maximum(bags.means(weight), 1e-12)[:, None]
    plain = bags.means(statistics)
    centres = bags.means(weight[:, None] * statistics) / total
    # where all is certain nothing needs a centre
    centres = np.where(total > 1e-9, centres, plain)
    missed = bags.proportions.T - bags.means(imputation)
    sums = bags.means(imputation[:, None] * statistics) + missed[:, None] * centres
    means = sums @ bags.sizes / bags.n_instances / bags.class_shares[:, None]
    return means, centres


# --- which rows to label --------------------------------------------------------------------------

# Part of the sampling probability that is the same for all rows: what a model is sure of, and wrong,
# must be found as well.
_EVEN = 0.5
_N_STRATA = 10
_ROUNDING = 1e-12


def required_labels(
    precision: float,
    y: Any,
    scores: ArrayLike,
    *,
    measure: str | Measure = "roc_auc",
    labels: ArrayLike | None = None,
    confidence_level: float = 0.95,
    **options: Any,
) -> int:
    """Return the number of random labels that gives an interval of some half width.

    Parameters
    ----------
    precision : float
        Half the width of the interval: 0.02 for ±0.02.
    y : as in `estimate`
    scores : array-like of shape (n_instances,) or (n_instances, n_classes)
        Decision function. Without ``labels`` it is taken to be log-odds, as that of models
        trained by the likelihood is; for an overconfident model the number is too small.
    measure : as in `estimate`
    labels : array-like of shape (n_instances,), optional
        Some labels that are known already, drawn at random: fifty are better than the model's probabilities.
    confidence_level, **options : as in `estimate`

    Returns
    -------
    n_labels : int
        At most the number of rows.

    Examples
    --------
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import required_labels
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> few, many = (required_labels(p, data.y, data.X[:, 0]) for p in (0.02, 0.01))
    >>> 50 < few < many < 2000
    True
    """
    check_positive(precision, "precision")
    check_inside(confidence_level, "confidence_level")
    sample, chosen = make_sample(y, scores), get_measure(measure, options)
    n = sample.bags.n_instances
    if labels is None:
        spread = float(np.mean(_deviations(chosen, sample) ** 2))
    else:
        pilot = estimates_from_labels({"": (chosen, sample)}, confidence_level, labels)[""]
        spread = pilot.standard_error**2 / max(1 / pilot.n_labels - 1 / n, 1e-300)
    wanted = (precision / stats.norm.ppf((1 + confidence_level) / 2)) ** 2
    return min(int(np.ceil(1 / (wanted / max(spread, 1e-300) + 1 / n))), n)


def sample_rows_to_label(
    n: int, y: Any, scores: ArrayLike, *, random_state: Any = None
) -> tuple[Ints, Floats]:
    """Choose rows whose labels are most informative, with sampling weights.

    Rows are drawn from strata of similar scores, and within those spread over the bags. Every row
    has a probability of being drawn, half of it the same for all; the other half goes to rows that are
    uncertain and influential, by the model's own probabilities.

    Parameters
    ----------
    n : int
        How many rows.
    y, scores : as in `estimate`
    random_state : int, RandomState or None, default=None
        Makes the draw repeatable.

    Returns
    -------
    rows : ndarray of shape (n,)
        Their positions, rising.
    weights : ndarray of shape (n,)
        Inverse sampling probability of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.evaluation import evaluate, sample_rows_to_label
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> rows, weights = sample_rows_to_label(100, data.y, data.X[:, 0], random_state=0)
    >>> labels, weight = np.full((2, 2000), np.nan)
    >>> labels[rows], weight[rows] = data.labels[rows], weights
    >>> found = evaluate(data.y, data.X[:, 0], labels=labels, weights=weight, n_resamples=100)
    >>> bool(found["roc_auc"].low < 0.9 < found["roc_auc"].high)
    True
    """
    sample = make_sample(y, scores)
    size = sample.bags.n_instances
    if not isinstance(n, int | np.integer) or not 1 <= n <= size:
        raise ValueError(f"n must be a whole number from 1 to the {size} rows, not {n!r}.")
    rng = check_random_state(random_state)
    two = sample.bags.n_classes == 2
    drawn = _sampling_probabilities(int(n), _deviations(Area() if two else Cost(), sample))
    order = np.lexsort((rng.uniform(size=size), sample.bags.index, _strata(sample.scores)))
    # equal steps from a random start through the rows laid out by their probabilities
    total = np.cumsum(drawn[order])
    total[-1] = n
    rows = np.sort(order[np.diff(np.floor(total + rng.uniform()), prepend=0.0) > 0])
    return rows, 1 / drawn[rows]


def _deviations(measure: Measure, sample: Sample) -> Floats:
    """Standard deviation of what each row adds to a measure, times the number of rows."""
    function, bags = in_these_rows(measure), sample.bags
    p = probabilities_of_all(LabelPosteriors(bags)(by_output(sample.scores)[None])[0])
    statistics = function.statistics(sample)
    means, centres = imputed_means(p, statistics, bags)
    slopes = function.gradient(means, bags) / bags.class_shares[:, None]
    apart = statistics[None] - centres[:, :, bags.index]
    change = np.sum(slopes[..., None] * apart, axis=1)
    variance = np.sum(p * change**2, axis=0) - np.sum(p * change, axis=0) ** 2
    return np.sqrt(np.where(variance > _ROUNDING, variance, 0.0))


def _sampling_probabilities(n: int, deviations: Floats) -> Floats:
    """Probability that each row is drawn: they sum to n, and none is above 1."""
    size, total = len(deviations), deviations.sum()
    share = np.full(size, 1 / size)
    if total > 0:
        share = _EVEN / size + (1 - _EVEN) * deviations / total
    drawn = n * share
    while (drawn > 1).any():
        sure = drawn >= 1
        left = n - np.count_nonzero(sure)
        drawn = np.where(sure, 1.0, left * share / share[~sure].sum() if left else 0.0)
    return drawn


def _strata(scores: Floats) -> Ints:
    """Number rows by similar scores; of several classes, by that which is predicted as well."""
    if scores.ndim == 1:
        place = (stats.rankdata(scores, method="ordinal") - 1) / len(scores)
        return np.floor(place * _N_STRATA).astype(np.intp)
    best = scores.argmax(axis=1)
    return best * _N_STRATA + _strata(scores.max(axis=1))
