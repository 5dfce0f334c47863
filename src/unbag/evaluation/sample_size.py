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

import textwrap
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from unbag._arrays import Floats
from unbag._checks import check_choice
from unbag._optional import make_frame
from unbag._text import WIDTH, aligned, capital, counted, rough
from unbag.bags.bags import BagModel, Bags, check_bag_target
from unbag.weights import decontamination_weights, precision

TableColumns = dict[str, NDArray[Any]]

# Bags printed, and classes named one by one in the summary.
_LISTED_BAGS = 5
LISTED_PIECES = 5
_LISTED_CLASSES = 3


@dataclass(frozen=True, eq=False, repr=False)
class EffectiveSampleSize:
    """What `effective_sample_size` found; printing it shows the tables.

    Attributes
    ----------
    n_bags : int
        Number of bags; rows of known label are no bags.
    n_instances : int
        Number of instances, of known label or not.
    classes : ndarray of shape (n_classes,)
        Labels of the classes.
    n_effective : float
        As many labelled rows, of the same mixture, would separate the classes as well:
        ``fraction_of_labels`` times ``n_instances``.
    fraction_of_labels : float
        That, as a part of what labels of all instances would give; between 0 and 1.
    rows_per_class : ndarray of shape (n_classes,)
        As many labelled rows of each class would give its averages as precisely.
    n_effective_difference : float or None
        For two classes: one over the variance of the estimated difference between the class
        means, of a statistic with unit variance inside classes. Labelled rows, m₀ of one class
        and m₁ of the other, give m₀m₁/(m₀ + m₁).
    by_bag : dict of arrays
        The largest share first: ``bag``, ``size``, ``proportion`` (of the second class; one column
        for each class if there are more) and ``share``, the part of the information that comes
        from this bag. Shares sum to 1. Rows of known label make one entry for each class.
    if_split : dict of arrays
        What to expect if every bag were cut at random into so many ``pieces`` of known
        proportion, down to single rows: ``n_bags``, their ``mean_size``, ``rows of ...`` each
        class, ``n_effective`` and ``fraction_of_labels``. The first line is what there is now.
        Pieces whose mixtures differ by more than sampling, such as districts, carry more. Empty
        with noise (that of smaller bags is not known), if ``cluster_by_bag`` (pieces of a
        bag would not be independent), or if all rows are labelled.
    summary : str
        The finding in words.
    warning : str or None
        What was warned of, if the bags carry too little.
    """

    n_bags: int
    n_instances: int
    classes: NDArray[Any]
    n_effective: float
    fraction_of_labels: float
    rows_per_class: Floats
    n_effective_difference: float | None
    by_bag: TableColumns
    if_split: TableColumns
    summary: str
    warning: str | None

    def frame(self, table: Literal["by_bag", "if_split"] = "by_bag") -> Any:
        """Give one of the two tables as a pandas DataFrame.

        Parameters
        ----------
        table : {"by_bag", "if_split"}, default="by_bag"
            Which of the two.

        Returns
        -------
        frame : pandas.DataFrame
            The table.
        """
        check_choice(table, ("by_bag", "if_split"), "table")
        return make_frame(getattr(self, table))

    def __str__(self) -> str:
        words = [self.summary, *([self.warning] if self.warning else [])]
        lines = [textwrap.fill(text, WIDTH) for text in words]
        lines += ["", "The most informative bags:", *_lines(self.by_bag, _LISTED_BAGS)]
        if self.if_split:
            lines += ["", "If every bag were split at random into pieces of known proportion:"]
            lines += _lines(self.if_split, LISTED_PIECES)
        return "\n".join(lines)

    __repr__ = __str__


def _summary(bags: Bags, share: float, rows: Floats, by_bag: Floats, cluster_by_bag: bool) -> str:
    n_bags, n_labelled = int((~bags.labelled).sum()), int(bags.sizes[bags.labelled].sum())
    if n_bags == 0:
        return f"All {n_labelled:,} rows are labelled."
    what = f"these {n_bags:,} bags" if n_bags > 1 else "this bag"
    if n_labelled:
        what += f" and {counted(n_labelled, 'labelled row')}"
    if cluster_by_bag:
        what = f"if a bag counts once, however large, {what}"
    sentences = [
        f"{capital(what)} with {bags.n_instances:,} instances in all are equivalent to "
        f"about {rough(share * bags.n_instances)} labelled rows for separating the classes "
        f"({_percent(share)} of what all labels would give).",
        f"Class means are as precise as from about {_by_class(bags.class_names, rows)}.",
    ]
    if n_labelled:
        labelled = _percent(by_bag[bags.labelled].sum())
        sentences.append(f"{labelled} of the information is in the labelled rows.")
    elif n_bags > 2:
        carried = np.cumsum(np.sort(by_bag)[::-1])
        many = int(np.searchsorted(carried, 0.5 - 1e-9)) + 1
        most = (
            f"{many:,} of the bags carry half"
            if many > 1
            else (f"One of the bags carries {_percent(carried[0])}")
        )
        sentences.append(f"{most} of the information.")
    return " ".join(sentences)


def _by_class(classes: NDArray[Any], rows: NDArray[Any]) -> str:
    numbers = [rough(m) for m in rows]
    if classes.tolist() == [0, 1]:
        return f"{numbers[0]} labelled negatives and {numbers[1]} positives"
    if len(classes) > _LISTED_CLASSES:
        low, high = int(np.argmin(rows)), int(np.argmax(rows))
        return (
            f"{numbers[low]} (class {classes[low]}) to {numbers[high]} (class {classes[high]}) "
            "labelled rows"
        )
    listed = [f"{m} of class {name}" for m, name in zip(numbers, classes, strict=True)]
    listed[0] = f"{numbers[0]} labelled rows of class {classes[0]}"
    return ", ".join(listed[:-1]) + " and " + listed[-1]


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else f"{100 * share:.2g}%"


def _lines(table: TableColumns, limit: int | None) -> list[str]:
    """Lines of text, one for the names and one for each row."""
    cells = [
        [name, *(_cell(name, value) for value in column[:limit])] for name, column in table.items()
    ]
    return aligned(list(zip(*cells, strict=True)), ">")


def _cell(name: str, value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if name in ("share", "fraction_of_labels"):
        return _percent(value)
    if "rows" in name or name in ("mean_size", "n_effective"):
        return rough(value)
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


# So many rows for a difference show classes one standard deviation apart, by a test of level 5%,
# in four of five cases.
_ROWS_TO_SEE_CLASSES = float(ndtri(0.975) + ndtri(0.8)) ** 2


def effective_sample_size(y: Any, *, cluster_by_bag: bool = False) -> EffectiveSampleSize:
    """Effective sample size of the bags, in labelled rows.

    That many labelled rows would estimate differences between class means as precisely. No features
    are needed: only the proportions and sizes of the bags count.

    Warns if labels of these instances would detect a difference of one standard deviation between
    two classes (test at 5%, power 80%) and the bags do not.

    Parameters
    ----------
    y : structured array from `unbag.bag_target`, or plain labels
        With noisy proportions the answer is for statistics between 0 and 1, such as predictions,
        and is an estimate itself.
    cluster_by_bag : bool, default=False
        Whether instances of a bag may depend on each other in any way given their classes, so that
        a bag counts once, however large. Labelled rows count one by one in either case.

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
    These 3 bags with 16 instances in all are equivalent to about 8.4 labelled rows for separating
    the classes (52% of what all labels would give). Class means are as precise as from about 4.6
    labelled negatives and 6.4 positives. One of the bags carries 61% of the information.
    <BLANKLINE>
    The most informative bags:
      bag  size  proportion  share
    north     4           0    61%
     west     8       0.875    38%
    south     4         0.5  0.76%
    <BLANKLINE>
    If every bag were split at random into pieces of known proportion:
    pieces  n_bags  mean_size  rows of 0  rows of 1  n_effective  fraction_of_labels
         1       3        5.3        4.6        6.4          8.4                 52%
         2       6        2.7        5.3        7.2           10                 64%
         4      12        1.3        6.5        8.5           14                 87%
         8      16          1          7          9           16                100%
    """
    bags = check_bag_target(y, accept=("multiplicity",))
    bag_model: BagModel = "bags" if cluster_by_bag else "instances"
    W = decontamination_weights(bags, bag_model=bag_model)
    draws = precision(bags, bag_model)
    shares, n_instances, n_classes = bags.class_shares, int(bags.sizes.sum()), bags.n_classes
    if (shares == 0).any():
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
        n_effective_difference=share * n_instances * float(shares.prod())
        if n_classes == 2
        else None,
        by_bag=_by_bag(bags, by_bag),
        if_split=_if_split(bags) if bags.noise is None and not cluster_by_bag else {},
        summary=_summary(bags, share, rows, by_bag, cluster_by_bag),
        warning=warning,
    )


def _by_bag(bags: Bags, share: Floats) -> TableColumns:
    order = np.argsort(-share, kind="stable")
    table: TableColumns = {"bag": bags.ids[order], "size": bags.sizes[order]}
    if bags.n_classes == 2:
        table["proportion"] = bags.proportions[order, 1]
    else:
        for name, column in zip(bags.class_names, bags.proportions.T, strict=True):
            table[f"proportion of {name}"] = column[order]
    return table | {"share": share[order]}


def _if_split(bags: Bags) -> TableColumns:
    """Expected information in bags cut at random into 1, 2, 4, ... pieces.

    A piece of m of the n rows of a bag has proportions of mean γ and covariance
    (diag(γ) − γγᵀ)/m · (n − m)/(n − 1), as without replacement. Summed over k pieces with
    weights m, whatever their sizes are, the bag adds

        n (γ − π)(γ − π)ᵀ + n (k − 1)/(n − 1) · (diag(γ) − γγᵀ)

    to the centred information matrix on average, which is what labels add if k = n.
    """
    if bags.labelled.all():
        return {}
    sizes = np.where(bags.labelled, 1, bags.sizes)
    largest = int(sizes.max())
    levels = [*(2**j for j in range((largest - 1).bit_length())), largest]
    G, n, shares = bags.proportions, bags.sizes[:, None], bags.class_shares
    between = (n * (G - shares)).T @ (G - shares)
    rows, share, n_bags = [], [], []
    for level in levels:
        pieces = np.minimum(level, sizes)
        known = (pieces - 1) / np.maximum(sizes - 1, 1)
        # the only row of a bag cannot be cut, but a split still means that its label is known
        known[(sizes == 1) & (level > 1)] = 1
        gain = n * known[:, None] * G
        matrix = between + np.diag(gain.sum(axis=0)) - gain.T @ G
        level_rows, level_share = _worth(matrix, shares, int(bags.sizes.sum()))
        rows.append(level_rows)
        share.append(level_share)
        n_bags.append(int(pieces[~bags.labelled].sum()))
    table: TableColumns = {
        "pieces": np.array(levels),
        "n_bags": np.array(n_bags),
        "mean_size": bags.sizes[~bags.labelled].sum() / np.array(n_bags),
    }
    for name, column in zip(bags.class_names, np.transpose(rows), strict=True):
        table[f"rows of {name}"] = column
    table["n_effective"] = np.array(share) * bags.sizes.sum()
    return table | {"fraction_of_labels": np.array(share)}


def _worth(matrix: Floats, shares: Floats, n_instances: int) -> tuple[Floats, float]:
    """Rows for each class, and the share of labels, of a centred information matrix Z.

    In units of what labels give, M = D^-½ Z D^-½ with D = n diag(π), which is zero along √π and
    has eigenvalues between 0 and 1 across it. With M⁺ its pseudo-inverse, the mean of class c
    varies by 1/n + M⁺[c,c]/(n π_c), and the share is (C − 1)/trace(M⁺).
    """
    root = np.sqrt(shares)
    across = np.linalg.svd(root[None])[2][1:]
    within = across @ (matrix / (n_instances * np.outer(root, root))) @ across.T
    inverse = across.T @ np.linalg.inv(within) @ across
    rows = n_instances / (1 + np.diag(inverse) / shares)
    share = (len(shares) - 1) / float(np.trace(inverse))
    return np.minimum(rows, n_instances * shares), min(share, 1.0)


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
