"""What was found on how much the bags are worth: tables, and their words."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unbag._arrays import Floats
from unbag._checks import check_choice
from unbag._optional import make_frame
from unbag._text import WIDTH, aligned, capital, counted, rough
from unbag.bags.bags import BagModel, Bags

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
    labelled_rows : float
        As many labelled rows, of the same mixture, would tell the classes apart as well:
        ``share_of_labels`` times ``n_instances``.
    share_of_labels : float
        That, as a part of what labels of all instances would give; between 0 and 1.
    rows_per_class : ndarray of shape (n_classes,)
        As many labelled rows of each class would give its averages as precisely.
    rows_for_difference : float or None
        For two classes: one over the variance of the estimated difference between the class
        means, of a statistic with unit variance inside classes. Labelled rows, m₀ of one class
        and m₁ of the other, give m₀m₁/(m₀ + m₁).
    pairing_share : float or None
        Part of the information on that difference that is left if bags are paired as in the
        paper (``weights="pairs"``); between 0 and 1. None for more than two classes, or noise.
    merged : dict of str to float
        The same for each way of merging bags, at its default size. Empty for more than two
        classes, with noise, or if there are fewer than two bags.
    by_bag : dict of arrays
        The largest share first: ``bag``, ``size``, ``proportion`` (of the second class; one column
        for each class if there are more) and ``share``, the part of the information that comes
        from this bag. Shares sum to 1. Rows of known label make one entry for each class.
    finer : dict of arrays
        What to expect if every bag were cut at random into so many ``pieces`` of known
        proportion, down to single rows: ``n_bags``, their ``mean_size``, ``rows of ...`` each
        class, ``labelled_rows`` and ``share_of_labels``. The first line is what there is now.
        Pieces whose mixtures differ by more than chance, such as districts, are worth more. Empty
        with noise (that of smaller bags is not known), if ``bag_model="bags"`` (pieces of a
        bag would not be independent), or if all rows are labelled.
    summary : str
        The finding in words.
    warning : str or None
        What was warned of, if the bags are worth too little.

    Examples
    --------
    >>> from unbag import effective_sample_size, bag_target
    >>> y = bag_target(["a"] * 4 + ["b"] * 4, counts={"a": 0, "b": 3})
    >>> information = effective_sample_size(y)
    >>> round(information.labelled_rows, 1), information.n_bags
    (4.8, 2)
    >>> information.by_bag["bag"].tolist()
    ['a', 'b']
    """

    n_bags: int
    n_instances: int
    classes: NDArray[Any]
    labelled_rows: float
    share_of_labels: float
    rows_per_class: Floats
    rows_for_difference: float | None
    pairing_share: float | None
    merged: dict[str, float]
    by_bag: TableColumns
    finer: TableColumns
    summary: str
    warning: str | None

    def frame(self, table: Literal["by_bag", "finer"] = "by_bag") -> Any:
        """Give one of the two tables as a pandas DataFrame.

        Parameters
        ----------
        table : {"by_bag", "finer"}, default="by_bag"
            Which of the two.

        Returns
        -------
        frame : pandas.DataFrame
            The table.
        """
        check_choice(table, ("by_bag", "finer"), "table")
        return make_frame(getattr(self, table))

    def __str__(self) -> str:
        words = [self.summary, *([self.warning] if self.warning else [])]
        lines = [textwrap.fill(text, WIDTH) for text in words]
        lines += ["", "The most informative bags:", *_lines(self.by_bag, _LISTED_BAGS)]
        if self.finer:
            lines += ["", "If every bag were cut into pieces of known proportion:"]
            lines += _lines(self.finer, LISTED_PIECES)
        return "\n".join(lines)

    __repr__ = __str__


def tell_worth(bags: Bags, share: float, rows: Floats, by_bag: Floats, bag_model: BagModel) -> str:
    """Say what the bags are worth, and where that is."""
    n_bags, n_labelled = int((~bags.labelled).sum()), int(bags.sizes[bags.labelled].sum())
    if n_bags == 0:
        return f"All {n_labelled:,} rows are labelled, so that nothing is lost to bags."
    what = f"these {n_bags:,} bags" if n_bags > 1 else "this bag"
    if n_labelled:
        what += f" and {counted(n_labelled, 'labelled row')}"
    if bag_model == "bags":
        what = f"if a bag counts once, however large, {what}"
    sentences = [
        f"{capital(what)} of {bags.n_instances:,} instances in all are worth about "
        f"{rough(share * bags.n_instances)} labelled rows for telling the classes apart, "
        f"{_percent(share)} of what all labels would give.",
        f"Class averages are known as well as from about {_by_class(bags.class_names, rows)}.",
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
    if name.startswith("share"):
        return _percent(value)
    if "rows" in name or name == "mean_size":
        return rough(value)
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
