"""Effects of single columns on the log-odds of a mixed model, with bands of its posterior."""

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
from unbag._text import aligned, shown
from unbag.evaluation.label_shift import column_names
from unbag.model_selection.fitted import last_step
from unbag.models.mixed import LLPClassifier
from unbag.models.summary import interval_degrees, score_differences
from unbag.reports.drawing import BLUE, FAINT, GREY, finish, make_axes, make_figure
from unbag.tables.pipeline import split_pipeline

# Values of a column of numbers, between the quantiles of 1% and 99%.
_POINTS = 40

# Levels of a category, the most frequent first.
_LEVELS = 12


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
        sizes = [len(effect.values) for effect in self.effects]
        numbers = np.concatenate([np.stack(effect[2:], axis=1) for effect in self.effects])
        return make_frame(
            {
                "column": np.repeat([effect.column for effect in self.effects], sizes),
                "value": [value for effect in self.effects for value in effect.values.tolist()],
                **dict(zip(Effect._fields[2:], numbers.T, strict=True)),
            }
        )

    def __str__(self) -> str:
        head = ("Column", "Lowest log-odds at", "", "Highest log-odds at", "")
        rows = []
        for effect in self.effects:
            cells = []
            for i in (effect.log_odds.argmin(), effect.log_odds.argmax()):
                value = effect.values[i]
                number = isinstance(value, float)
                cells += [f"{value:.3g}" if number else shown(value, 20)]
                cells += [f"{effect.log_odds[i]:+.2f}"]
            rows.append((shown(effect.column, 30), *cells))
        return "\n".join(aligned([head, *rows]))

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
    if getattr(X, "ndim", 2) == 2 and not hasattr(X, "columns"):
        dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        names = column_names(dense.shape[1], feature_names, X)
        return pandas.DataFrame(dense, columns=names)
    return nw.from_native(X, eager_only=True).to_pandas()


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
