"""Importance of columns: coefficients of a linear model, else permutation importance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from unbag._arrays import Floats
from unbag._optional import make_frame
from unbag._text import aligned, percent, shown
from unbag.bags.bags import check_bag_target
from unbag.evaluation import bag_permutation_importance
from unbag.evaluation.label_shift import column_names
from unbag.model_selection.fitted import last_step, names_behind
from unbag.models.mixed import LLPClassifier
from unbag.reports.drawing import BLUE, CLASS_COLOURS, GREY, ORANGE, SinglePicture, add_legend
from unbag.reports.page import Finding, NumberTable, Picture, Section
from unbag.tables.pipeline import split_pipeline
from unbag.terms.numbers import NumberTerm
from unbag.terms.sparse import SparseTerm

_SHOWN = 10
_FIRST_CLASSES = 4


@dataclass(frozen=True, eq=False, repr=False)
class ImportanceDisplay(SinglePicture):
    """Importance of the columns of a model.

    Attributes
    ----------
    columns : ndarray of str
        The strongest first.
    values : ndarray of shape (n_outputs, n_columns)
        Of a linear model, the change of the log-odds per standard deviation of the column: those
        of the second of two classes, or of each of several. Of any other, the permutation
        importance (`unbag.evaluation.bag_permutation_importance`) as a share of the total over
        all columns.
    linear : bool
        Which of the two.
    classes : tuple of str
        What the rows of ``values`` are for, if the model is linear and there are several classes.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.reports import ImportanceDisplay
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> display = ImportanceDisplay.from_estimator(model, data.X, data.y, feature_names=["height"])
    >>> bool(abs(display.values[0, 0] - model.coef_[0, 0] * data.X.std()) < 1e-9)
    True
    """

    columns: NDArray[Any]
    values: Floats
    linear: bool
    classes: tuple[str, ...] = ()

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, feature_names: ArrayLike | None = None
    ) -> Self:
        """Look into a fitted linear model, or shuffle the columns of any other.

        Parameters
        ----------
        model : classifier or pipeline
            Fitted.
        X : array, sparse matrix or data frame
            The instances.
        y : structured array from `unbag.bag_target`
            The bag of each instance and its proportions.
        feature_names : sequence of str, optional
            Names of the columns of an array.

        Returns
        -------
        display : ImportanceDisplay
            The display.
        """
        before, _ = split_pipeline(model)
        coefficients = linear_coefficients(model)
        if coefficients is None:
            found = bag_permutation_importance(model, X, y, feature_names=feature_names)
            loss = np.maximum(found.loss, 0.0)
            share = loss / max(loss.sum(), np.finfo(float).tiny)
            return cls(found.columns, share[None], linear=False)
        if before is None:
            seen, names = X, column_names(coefficients.shape[1], feature_names, X)
        else:
            seen = before.transform(X)
            names = column_names(coefficients.shape[1], names_behind(before))
        values = coefficients * _spread(seen)
        order = np.argsort(-np.abs(values).max(axis=0), kind="stable")
        classes = check_bag_target(y).class_names
        several = tuple(map(shown, classes)) if len(values) > 1 else ()
        return cls(names[order], values[:, order], linear=True, classes=several)

    def frame(self) -> Any:
        """One row per column, the strongest first."""
        if self.classes:
            parts = {f"log-odds of {name}": row for name, row in self._by_class()}
        else:
            parts = {"log-odds" if self.linear else "importance": self.values[0]}
        return make_frame({"column": self.columns, **parts})

    def _by_class(self) -> list[tuple[str, Floats]]:
        return list(zip(self.classes, self.values, strict=True)) if self.classes else []

    def _draw(self, ax: Any) -> None:
        """Draw the strongest columns as bars."""
        n = min(len(self.columns), _SHOWN)
        rows = self._by_class()[:_FIRST_CLASSES] or [("", self.values[0])]
        height = 0.8 / len(rows)
        for k, (name, values) in enumerate(rows):
            top = values[:n] if self.linear else 100 * values[:n]
            colours: Any = CLASS_COLOURS[k % len(CLASS_COLOURS)]
            if len(rows) == 1:
                colours = [BLUE if value >= 0 else ORANGE for value in top]
            place = np.arange(n) + (k - (len(rows) - 1) / 2) * height
            ax.barh(place, top, height=0.9 * height, color=colours, label=shown(name, 20) or None)
        ax.set_yticks(np.arange(n), [shown(name, 24) for name in self.columns[:n]])
        ax.invert_yaxis()
        ax.axvline(0, color=GREY, linewidth=0.8)
        ax.set_xlabel("log-odds per standard deviation" if self.linear else "% of total importance")
        if len(rows) > 1:
            add_legend(ax)

    def __str__(self) -> str:
        return "\n".join(aligned([self.header, *self.rows]))

    @property
    def header(self) -> tuple[str, ...]:
        """What the columns of the table of this are called."""
        if not self.linear:
            return ("Column", "Permutation importance")
        several = tuple(f"Log-odds of {name}" for name in self.classes)
        return ("Feature", *(several or ("Log-odds per standard deviation",)))

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The strongest columns with their values, in words."""
        write = (lambda v: f"{v:+.2f}") if self.linear else (lambda v: percent(max(v, 0.0)))
        return tuple(
            (shown(name, 60), *map(write, self.values[:, k]))
            for k, name in enumerate(self.columns[:_SHOWN])
        )


def linear_coefficients(model: Any) -> Floats | None:
    """Coefficients (n_outputs, n_features) of what a linear model sees; None of any other."""
    last = last_step(model)
    found = getattr(last, "coef_", None)
    if found is None or np.ndim(found) != 2 or np.shape(found)[1] != last.n_features_in_:
        return None
    found = np.asarray(found, dtype=float)
    terms = last.function_.terms if isinstance(last, LLPClassifier) else ()
    if any(not isinstance(term, NumberTerm | SparseTerm) for term in terms):
        return None
    places = [term.places for term in terms if isinstance(term, NumberTerm)]
    return found[:, np.argsort(np.concatenate(places))] if places else found


def _spread(X: Any) -> Floats:
    """Standard deviations of the columns."""
    if sparse.issparse(X):
        table: Any = X
        mean = np.asarray(table.mean(axis=0), dtype=float).ravel()
        square = np.asarray(table.multiply(table).mean(axis=0), dtype=float).ravel()
        return np.sqrt(np.maximum(square - mean**2, 0.0))
    return np.asarray(X, dtype=float).std(axis=0)


def importance_section(display: ImportanceDisplay | str) -> Section:
    """Report the importance of columns; a str says why it is not known."""
    title = "Which columns matter?"
    if isinstance(display, str):
        return Section("importance", title, (Finding(f"Not estimated: {display}", "note"),))
    if display.linear:
        text = (
            "The log-odds of a row are a sum over its features. Shown is their change per standard "
            "deviation of each feature, with the others fixed."
        )
    else:
        text = (
            "Each column was shuffled over all rows. Shown is the loss of likelihood of the bag "
            "counts, as a share of the total over all columns. Bags are those of training, so "
            "overfitting counts, too; correlated columns replace each other."
        )
    findings = (
        Finding(text),
        Finding("Importance is association, not cause.", "note"),
    )
    n = min(len(display.columns), _SHOWN)
    what = "features" if display.linear else "columns"
    caption = f"The {n} strongest of {len(display.columns):,} {what}."
    if len(display.columns) <= _SHOWN:
        caption = f"All {what}, the strongest first."
    first = shown(display.columns[0], 40)
    picture = Picture(display.plot, caption, f"Bars of {n} {what}; the longest is {first}.")
    table = NumberTable(caption, display.header, display.rows)
    return Section("importance", title, findings, (picture,), (table,))
