"""Effective sample size of bags, in labelled rows.

Let h be any statistic of an instance with variance σ² inside every class. The unmixing weights W
estimate its mean over class c, with N_i instances in bag i, up to a variance of

    σ² S[c, c],    S = Σ_i W[i]ᵀ W[i] / N_i,

where m labelled rows of that class would leave σ²/m. So the bags are equivalent to 1/S[c, c]
labelled rows of class c, for its mean and a statistic that varies alike in all classes. For the
slope of a linear model they carry less information. Without noise S = (GᵀNG)⁻¹ for the matrix G of
proportions, and pure bags are equivalent to the number of their rows.

A classifier needs differences between classes. With π the proportions of the C classes among all n
instances, the error in them is

    Σ_c π_c (θ̂_c − Σ_k π_k θ̂_k)²  =  σ² Σ_i q_i,    q_i = Σ_c π_c (W[i,c] − Σ_k π_k W[i,k])² / N_i,

on average, and would be σ² (C − 1)/n with labels. The ratio (C − 1)/(n Σ q_i) is the fraction of
the labels' information that the bags retain. For two classes it is

    Σ_i n_i (γ_i − γ̄)² / (n γ̄ (1 − γ̄)),

the variance of the proportions over its largest possible value; q_i / Σ q_i is the share of bag i.

With noise of covariance V_i in the proportions, N_i = 1/(1/n_i + 4v_i), v_i = trace(V_i)/2, as in
`unbag.weights.decontamination_weights`: exact for a statistic between 0 and 1 with σ² = ¼ and the
largest effect of noise. The same noise is in W, so the count is a little high: in simulations with
bags of 30 by 1% for noise a sixth of the spread of the proportions, 3 to 6% for a third, 15 to 20%
for half of it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from unbag._arrays import Floats
from unbag._optional import make_frame
from unbag._text import capital, counted, listing, rough, wrapped
from unbag.bags.bags import Bags, check_bag_target
from unbag.evaluation.label_shift import lines_of
from unbag.weights import decontamination_weights, precision

# Bags printed.
_LISTED_BAGS = 5


@dataclass(frozen=True, eq=False, repr=False)
class EffectiveSampleSize:
    """What `effective_sample_size` found; printing it shows the table.

    The columns of ``by_bag``, the largest share first: ``bag``, ``size``, ``proportion`` (of the
    second class; one column for each class if there are more) and ``share``, the part of the
    information that comes from this bag. Rows of known label make one entry for each class.
    """

    n_bags: int  # rows of known label are not bags
    n_instances: int
    classes: NDArray[Any]
    n_effective: float  # labelled rows of the same mixture that would separate the classes as well
    fraction_of_labels: float  # of what labels of all instances would give
    rows_per_class: Floats  # labelled rows that would give its averages as precisely
    by_bag: dict[str, NDArray[Any]]
    summary: str  # the finding in words
    warning: str | None  # what was warned of, if the bags carry too little

    def frame(self) -> Any:
        """The table of bags as a pandas DataFrame."""
        return make_frame(self.by_bag)

    def __str__(self) -> str:
        words = [self.summary, *([self.warning] if self.warning else [])]
        lines = [line for text in words for line in wrapped(text)]
        bags = {name: column[:_LISTED_BAGS] for name, column in self.by_bag.items()}
        bags["share"] = np.array([_percent(share) for share in bags["share"]])
        return "\n".join([*lines, "", "The most informative bags:", *lines_of(bags)])

    __repr__ = __str__


def _summary(bags: Bags, share: float, rows: Floats, by_bag: Floats) -> str:
    n_bags, n_labelled = int((~bags.labelled).sum()), int(bags.sizes[bags.labelled].sum())
    if n_bags == 0:
        return f"All {n_labelled:,} rows are labelled."
    what = f"these {n_bags:,} bags" if n_bags > 1 else "this bag"
    if n_labelled:
        what += f" and {counted(n_labelled, 'labelled row')}"
    numbers, names = [rough(m) for m in rows], bags.class_names
    listed = [f"{m} of class {name}" for m, name in zip(numbers, names, strict=True)]
    by_class = f"labelled rows (about {listing(listed)})"
    if names.tolist() == [0, 1]:
        by_class = f"about {numbers[0]} labelled negatives and {numbers[1]} positives"
    text = (
        f"{capital(what)} with {bags.n_instances:,} rows in all are equivalent to about "
        f"{rough(share * bags.n_instances)} labelled rows for separating the classes "
        f"({_percent(share)} of what all labels would give). Class means are as precise as from "
        f"{by_class}."
    )
    if n_labelled:
        labelled = _percent(by_bag[bags.labelled].sum())
        return f"{text} {labelled} of the information is in the labelled rows."
    if n_bags <= 2:
        return text
    carried = np.cumsum(np.sort(by_bag)[::-1])
    many = int(np.searchsorted(carried, 0.5 - 1e-9)) + 1
    if many == 1:
        return f"{text} One of the bags carries {_percent(carried[0])} of the information."
    return f"{text} {many:,} of the bags carry half of the information."


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else f"{100 * share:.2g}%"


# So many rows for a difference show classes one standard deviation apart, by a test of level 5%,
# in four of five cases.
_ROWS_TO_SEE_CLASSES = float(ndtri(0.975) + ndtri(0.8)) ** 2


def effective_sample_size(y: Any) -> EffectiveSampleSize:
    """Effective sample size of the bags, in labelled rows.

    The number of labelled rows that estimate differences between class means as precisely. It depends
    on the proportions and sizes of the bags only, not on features.

    Warns if labels of these instances would detect a difference of one standard deviation between
    two classes (test at 5%, power 80%) and the bags do not.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
        With noisy proportions the answer is for statistics between 0 and 1, such as predictions,
        and is an estimate itself.

    Returns
    -------
    information : EffectiveSampleSize
        Print it.

    Examples
    --------
    >>> from unbag import bag_target
    >>> from unbag.evaluation.sample_size import effective_sample_size
    >>> bag = ["north"] * 4 + ["south"] * 4 + ["west"] * 8
    >>> y = bag_target(bag, counts={"north": 0, "south": 2, "west": 7})
    >>> print(effective_sample_size(y))
    These 3 bags with 16 rows in all are equivalent to about 8.4 labelled rows for separating the
    classes (52% of what all labels would give). Class means are as precise as from about 4.6
    labelled negatives and 6.4 positives. One of the bags carries 61% of the information.
    <BLANKLINE>
    The most informative bags:
      bag  size  proportion  share
    north     4           0    61%
     west     8       0.875    38%
    south     4         0.5  0.76%
    """
    bags = check_bag_target(y, accept=("multiplicity",))
    W, draws = decontamination_weights(bags), precision(bags, "instances")
    shares, n_instances, n_classes = bags.class_shares, int(bags.sizes.sum()), bags.n_classes
    if (n_instances * shares < 0.5).any():
        missing = bags.class_names[int(shares.argmin())]
        raise ValueError(
            f"By the noisy proportions there are no instances of class {missing} at all, so that "
            "its labels cannot be counted."
        )
    covariance = (W / draws[:, None]).T @ W
    errors = (W - (W @ shares)[:, None]) ** 2 @ shares / draws
    # noise can make the estimate larger than with labels
    share = min((n_classes - 1) / float(n_instances * errors.sum()), 1.0)
    rows = np.minimum(1 / np.diag(covariance), n_instances * shares)
    by_bag = errors / errors.sum()
    order = np.argsort(-by_bag, kind="stable")
    table: dict[str, Any] = {"bag": bags.ids[order], "size": bags.sizes[order]}
    if n_classes == 2:
        table["proportion"] = bags.proportions[order, 1]
    else:
        of_classes = zip(bags.class_names, bags.proportions[order].T, strict=True)
        table |= {f"proportion of {name}": column for name, column in of_classes}
    warning = _warning(bags, covariance)
    if warning is not None:
        warnings.warn(warning, UserWarning, stacklevel=2)
    return EffectiveSampleSize(
        n_bags=int((~bags.labelled).sum()),
        n_instances=n_instances,
        classes=bags.class_names,
        n_effective=share * n_instances,
        fraction_of_labels=share,
        rows_per_class=rows,
        by_bag=table | {"share": by_bag[order]},
        summary=_summary(bags, share, rows, by_bag),
        warning=warning,
    )


def _warning(bags: Bags, covariance: Floats) -> str | None:
    """Warn if labels would detect a difference of one standard deviation and the bags do not."""
    variance = np.diag(covariance)[:, None] + np.diag(covariance) - 2 * covariance
    np.fill_diagonal(variance, 0)
    first, second = np.unravel_index(variance.argmax(), variance.shape)
    counts = bags.n_instances * bags.class_shares[[first, second]]
    if variance.max() * _ROWS_TO_SEE_CLASSES <= 1 or counts.prod() / counts.sum() < (
        _ROWS_TO_SEE_CLASSES
    ):
        return None
    share = bags.proportions[:, second]
    mean = np.average(share, weights=bags.sizes)
    spread = np.sqrt(np.average((share - mean) ** 2, weights=bags.sizes))
    return (
        "These bags carry little information about the classes: if "
        f"{bags.class_names[first]} and {bags.class_names[second]} differed by a whole standard "
        "deviation, the bags would often not show it. Get more bags, or bags whose proportions "
        f"differ more (now an SD of {spread:.2g} around {mean:.2g})."
    )
