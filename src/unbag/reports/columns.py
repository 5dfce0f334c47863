"""What single columns do: their effects on the log-odds with bands, and their importance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from unbag._arrays import Floats
from unbag._optional import make_frame, optional
from unbag._text import aligned, percent, shown
from unbag.evaluation import bag_permutation_importance
from unbag.evaluation.label_shift import column_names
from unbag.model_selection.fitted import last_step
from unbag.models.mixed import LLPClassifier
from unbag.models.summary import interval_degrees, score_differences
from unbag.reports.drawing import BLUE, FAINT, GREY, Display, finish, make_axes, make_figure
from unbag.tables.pipeline import split_pipeline

# Values of a column of numbers, between the quantiles of 1% and 99%.
_POINTS = 40

# Levels of a category, the most frequent first, and columns in a picture of importance.
_LEVELS, _BARS = 12, 10


class Effect(NamedTuple):
    """Differences of the log-odds to the reference, by the values of one column, and their band."""

    column: str
    values: NDArray[Any]
    log_odds: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False, repr=False)
class EffectsDisplay:
    """Effects of single columns on the log-odds of an `unbag.LLPClassifier`.

    One column varies, all others stay at their reference, the median or the most frequent level.
    Shown is by how much the log-odds differ from those of the reference row, kernel term included,
    with pointwise intervals by the posterior.

    Attributes
    ----------
    effects : tuple of Effect
        One for each column.
    of : str
        The class whose log-odds these are.
    confidence_level : float

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.reports import EffectsDisplay
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=2, random_state=0)
    >>> model = LLPClassifier().fit(data.X, data.y)
    >>> display = EffectsDisplay.from_estimator(model, data.X)
    >>> [effect.column for effect in display.effects]
    ['column 0', 'column 1']
    """

    effects: tuple[Effect, ...]
    of: str
    confidence_level: float

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        *,
        features: Sequence[Any] | None = None,
        feature_names: ArrayLike | None = None,
        target: Any = None,
        confidence_level: float = 0.95,
    ) -> Self:
        """Compute the effects of columns of a table.

        Parameters
        ----------
        model : LLPClassifier, or a pipeline that ends with one
            Fitted.
        X : array or data frame of shape (n_rows, n_columns)
            Rows that give references and values.
        features : sequence of str or int, optional
            Columns of what the classifier is given, by name or place; by default all.
        feature_names : sequence of str, optional
            Names of the columns of an array.
        target : object, optional
            One of several classes, by its label; by default the last. Effects are then on its
            log-probability less the mean of those of all classes.
        confidence_level : float, default=0.95
            Posterior probability that bands cover each single difference.

        Returns
        -------
        display : EffectsDisplay
            The display.
        """
        before, final = split_pipeline(model)[0], last_step(model)
        if not isinstance(final, LLPClassifier):
            raise ValueError(
                f"Effects with bands are those of LLPClassifier, not of {type(final).__name__}; see "
                "sklearn.inspection.PartialDependenceDisplay for other models."
            )
        table = _as_pandas(X if before is None else before.transform(X), feature_names)
        classes = final.classes_.tolist()
        of = classes[-1] if target is None else target
        if of not in classes:
            raise ValueError(f"target must be one of {classes}, not {target!r}.")
        column = None if len(classes) == 2 else classes.index(of)
        sign = -1.0 if len(classes) == 2 and of == classes[0] else 1.0
        reach = float(stdtrit(interval_degrees(final), 0.5 + confidence_level / 2))
        origin = table.iloc[:1].assign(**{name: _reference(own) for name, own in table.items()})
        as_given = (lambda rows: rows) if hasattr(final, "feature_names_in_") else np.asarray
        found = []
        for feature in table.columns if features is None else features:
            name = feature if isinstance(feature, str) else table.columns[feature]
            if name not in table.columns:
                raise ValueError(f"There is no column {feature!r}.")
            values = _values(table[name])
            rows = origin.loc[origin.index.repeat(len(values))].assign(**{name: values})
            middle, sd = score_differences(final, as_given(rows), as_given(origin))
            if column is not None:
                middle, sd = middle[:, column], sd[:, column]
            middle = sign * middle
            found.append(Effect(name, values, middle, middle - reach * sd, middle + reach * sd))
        return cls(tuple(found), str(of), confidence_level)

    def plot(self, figure: Any = None) -> Any:
        """Draw all effects, and return the figure.

        Parameters
        ----------
        figure : matplotlib Figure, optional
            Where to draw; by default a new one.

        Returns
        -------
        figure : matplotlib Figure
            With one pair of axes for each column.
        """
        wide = min(3, len(self.effects))
        high = -(-len(self.effects) // wide)
        if figure is None:
            figure = make_figure((3.2 * wide, 2.6 * high))
        axes = figure.subplots(high, wide, sharey=True, squeeze=False).ravel()
        for ax in axes[len(self.effects) :]:
            ax.remove()
        for ax, effect in zip(axes, self.effects, strict=False):
            draw_effect(self, effect, ax)
        return figure

    def frame(self) -> Any:
        """One row per column and value."""
        rows = [
            (effect.column, *row)
            for effect in self.effects
            for row in zip(effect.values.tolist(), *effect[2:], strict=True)
        ]
        names = ("column", "value", *Effect._fields[2:])
        return make_frame(dict(zip(names, zip(*rows, strict=True), strict=True)))

    def __str__(self) -> str:
        rows = [["Column", "Lowest log-odds at", "", "Highest log-odds at", ""]]
        for effect in self.effects:
            rows.append([shown(effect.column, 30)])
            for i in (effect.log_odds.argmin(), effect.log_odds.argmax()):
                value = effect.values[i]
                written = f"{value:.3g}" if isinstance(value, float) else shown(value, 20)
                rows[-1] += [written, f"{effect.log_odds[i]:+.2f}"]
        return "\n".join(aligned(rows))

    __repr__ = __str__


def draw_effect(display: EffectsDisplay, effect: Effect, ax: Any) -> None:
    """Draw the effect of one column, on the scale of all."""
    make_axes(ax).axhline(0, color=GREY, linewidth=0.8)
    if effect.values.dtype.kind in "fiub":
        ax.fill_between(effect.values, effect.low, effect.high, color=FAINT)
        ax.plot(effect.values, effect.log_odds, color=BLUE)
    else:
        place = np.arange(len(effect.values))
        ax.vlines(place, effect.low, effect.high, color=FAINT, linewidth=4)
        ax.plot(place, effect.log_odds, "o", color=BLUE)
        ax.set_xticks(place, [shown(v, 16) for v in effect.values], rotation=45, ha="right")
    low = min(one.low.min() for one in display.effects)
    high = max(one.high.max() for one in display.effects)
    ax.set(xlabel=shown(effect.column, 30), ylabel=f"log-odds of {shown(display.of, 20)}")
    ax.set_ylim(low - 0.05 * (high - low) - 1e-9, high + 0.05 * (high - low) + 1e-9)
    finish(ax)


def _as_pandas(X: Any, feature_names: ArrayLike | None) -> Any:
    pandas = optional("pandas", "Effects", "report")
    if hasattr(X, "columns") or getattr(X, "ndim", 2) != 2:
        return nw.from_native(X, eager_only=True).to_pandas()
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return pandas.DataFrame(dense, columns=column_names(dense.shape[1], feature_names, X))


def _reference(column: Any) -> Any:
    """The median, or the most frequent level."""
    if column.dtype.kind in "fiub":
        return column.astype(float).median()
    return column.mode().iloc[0]


def _values(column: Any) -> NDArray[Any]:
    """Numbers between extreme quantiles, or levels."""
    if column.dtype.kind not in "fiub":
        return np.asarray(column.value_counts().index[:_LEVELS].astype(object))
    numbers = column.astype(float).dropna()
    if numbers.nunique() <= 2:
        return np.unique(numbers)
    low, high = np.quantile(numbers, [0.01, 0.99])
    return np.linspace(low, high, _POINTS)


@dataclass(frozen=True, eq=False, repr=False)
class ImportanceDisplay(Display):
    """Importance of the columns of a model.

    Attributes
    ----------
    columns : ndarray of str
        The most important first.
    importance : ndarray of shape (n_columns,)
        Permutation importance (`unbag.evaluation.bag_permutation_importance`) as a proportion of
        the total over all columns.

    Examples
    --------
    >>> from unbag import LLPClassifier
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.reports import ImportanceDisplay
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=2, random_state=0)
    >>> model = LLPClassifier(kernel=None).fit(data.X, data.y)
    >>> names = ["height", "nothing"]
    >>> display = ImportanceDisplay.from_estimator(model, data.X, data.y, feature_names=names)
    >>> display.columns[0], bool(display.importance[0] > 0.9)
    ('height', True)
    """

    columns: NDArray[Any]
    importance: Floats

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, feature_names: ArrayLike | None = None
    ) -> Self:
        """Shuffle the columns of a table one by one.

        Parameters
        ----------
        model, X, y, feature_names : as in `bag_permutation_importance`

        Returns
        -------
        display : ImportanceDisplay
            The display.
        """
        found = bag_permutation_importance(model, X, y, feature_names=feature_names)
        loss = np.maximum(found.loss, 0.0)
        return cls(found.columns, loss / max(loss.sum(), np.finfo(float).tiny))

    def frame(self) -> Any:
        """One row per column, the most important first."""
        return make_frame({"column": self.columns, "importance": self.importance})

    def _draw(self, ax: Any) -> None:
        names = [shown(name, 24) for name in self.columns[:_BARS]]
        ax.barh(np.arange(len(names)), 100 * self.importance[:_BARS], color=BLUE)
        ax.set_yticks(np.arange(len(names)), names)
        ax.invert_yaxis()
        ax.set_xlabel("% of total importance")

    header = ("Column", "Importance")

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """The most important columns, in words."""
        found = zip(self.columns[:_BARS], self.importance, strict=False)
        return tuple((shown(name, 60), percent(share)) for name, share in found)

    def __str__(self) -> str:
        return "\n".join(aligned([self.header, *self.rows]))
