"""Whether bag means follow the proportions, which is what estimates rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from unbag._arrays import Bools, Floats
from unbag._optional import make_frame
from unbag._text import shown
from unbag.bags.bags import Bags, check_bag_target
from unbag.evaluation.label_shift import Columns, LabelShiftTest, columns_test, read_columns
from unbag.reports.drawing import BLUE, GREY, ORANGE, Display, add_legend_above

# Up to this many bags are drawn one by one.
_SOME = 400

_NAMED = 3
# More crosses than this would bury the bags below them.
_CROSSED = 10
# Standard errors from which on a bag counts as far off.
_FAR = 2.5


@dataclass(frozen=True, eq=False, repr=False)
class LabelShiftDisplay(Display):
    """Bag means of a column against those expected under label shift.

    Values are replaced by their ranks in percent, as the test does. Under label shift,
    the means are linear in the proportions, up to random variation.

    Attributes
    ----------
    feature : str
        The column that is shown.
    bag : ndarray of shape (n_bags,)
        Names of the bags.
    position : ndarray of shape (n_bags,)
        Share of positives in the bag; with more than two classes, the expected mean.
    mean : ndarray of shape (n_bags,)
        Mean rank in percent.
    expected : ndarray of shape (n_bags,)
        Mean rank expected under label shift.
    error : ndarray of shape (n_bags,)
        Standard error of the mean.
    suspicious : ndarray of bool, shape (n_bags,)
        Bags that the test names, and that deviate in this column.
    n_classes : int
        Number of classes.
    test : LabelShiftTest
        The test of all columns.

    Examples
    --------
    >>> from unbag.datasets import make_gaussian_bags
    >>> from unbag.reports import LabelShiftDisplay
    >>> data = make_gaussian_bags(n_bags=40, bag_size=50, n_features=1, random_state=0)
    >>> data.X[data.y["bag"] == 7] += 2
    >>> display = LabelShiftDisplay.from_data(data.X, data.y, feature_names=["height"])
    >>> display.bag[display.suspicious].tolist()
    [7]
    """

    feature: str
    bag: NDArray[Any]
    position: Floats
    mean: Floats
    expected: Floats
    error: Floats
    suspicious: Bools
    n_classes: int
    test: LabelShiftTest

    @classmethod
    def from_data(
        cls,
        X: Any,
        y: Any,
        *,
        feature: str | None = None,
        feature_names: ArrayLike | None = None,
    ) -> LabelShiftDisplay:
        """Test the columns and show one of them: the one given, or that of the least p-value.

        Parameters
        ----------
        X : array-like or data frame of shape (n_instances,) or (n_instances, n_features)
            Columns to test.
        y : structured array from `unbag.bag_target`
            The bag of each instance and its proportions.
        feature : str, optional
            The column to show; by default that of the least p-value.
        feature_names : sequence of str, optional
            Names of the columns of an array.

        Returns
        -------
        display : LabelShiftDisplay
            The display.
        """
        columns = read_columns(X, feature_names)
        test = columns_test(columns, check_bag_target(y))
        return show_test(columns, y, test, test.worst_feature if feature is None else feature)

    @property
    def residual(self) -> Floats:
        """How many standard errors each bag mean is off, roughly; the test has exact ones."""
        return (self.mean - self.expected) / self.error

    def frame(self) -> Any:
        """One row per bag, in the order of the bags."""
        names = ("bag", "position", "mean", "expected", "error", "suspicious")
        return make_frame({name: getattr(self, name) for name in names})

    def _draw(self, ax: Any) -> None:
        """Draw means over proportions with the fitted line, and name the worst bags."""
        order = np.argsort(self.position)
        x, line = self.position[order], self.expected[order]
        ok = ~self.suspicious
        n = len(self.bag)
        if n > _SOME:
            from matplotlib.colors import LinearSegmentedColormap

            shades = LinearSegmentedColormap.from_list("shades", [f"{BLUE}30", f"{BLUE}ff"])
            ax.hexbin(
                self.position, self.mean, gridsize=28, cmap=shades, mincnt=1, bins="log", lw=0
            )
        else:
            ax.errorbar(
                self.position[ok],
                self.mean[ok],
                yerr=2 * self.error[ok] if n <= 100 else None,
                fmt="o",
                color=BLUE,
                markersize=4 if n <= 100 else 2.5,
                elinewidth=0.7,
                label="bag, ±2 std. errors" if n <= 100 else "bag",
            )
        ax.plot(x, line, color=GREY, linewidth=1.5, label="expected")
        self._mark_suspicious(ax)
        x_label = (
            "proportion of positives in the bag"
            if self.n_classes == 2
            else "expected mean rank, in %"
        )
        ax.margins(y=0.12)
        ax.set(xlabel=x_label, ylabel=f"mean rank of {shown(self.feature, 16)}, in %")
        add_legend_above(ax, columnspacing=1)

    def _mark_suspicious(self, ax: Any) -> None:
        """Cross out the worst bags, and mark others that stand out by dots that hide nothing."""
        bad = np.flatnonzero(self.suspicious)
        if len(bad) == 0:
            return
        worst = bad[np.argsort(-np.abs(self.residual[bad]), kind="stable")]
        crossed, rest = worst[:_CROSSED], worst[_CROSSED:]
        ax.plot(self.position[rest], self.mean[rest], ".", color=ORANGE, markersize=3)
        label = "stands out" if len(rest) == 0 else f"the {_CROSSED} worst of {len(bad):,}"
        style = {"color": ORANGE, "markersize": 8, "label": label}
        ax.plot(self.position[crossed], self.mean[crossed], "X", **style)
        middle = np.median(self.position)
        for k in worst[:_NAMED]:
            side = "left" if self.position[k] < middle else "right"
            place, name = (self.position[k], self.mean[k]), shown(self.bag[k], 16)
            style = {"textcoords": "offset points", "fontsize": "small", "parse_math": False}
            ax.annotate(name, place, xytext=(0, 7), ha=side, **style)

    def __str__(self) -> str:
        off = np.abs(self.residual)
        lines = [self.test.summary, f"Shown: {shown(self.feature)}, mean ranks in percent."]
        lines += [
            f"  bag {shown(self.bag[k])}: {self.mean[k]:.1f}, expected "
            f"{self.expected[k]:.1f} ± {self.error[k]:.1f}"
            for k in np.argsort(-off)[:_NAMED]
        ]
        return "\n".join(lines)


def show_test(columns: Columns, y: Any, test: LabelShiftTest, feature: str) -> LabelShiftDisplay:
    """Show one of the columns that were tested."""
    values, bags = columns.column(feature), check_bag_target(y)
    ranks = 100 * (rankdata(values) - 0.5) / bags.n_instances
    mean = bags.means(ranks)
    spread = np.maximum(bags.means(ranks**2) - mean**2, 0)
    expected, variance = _fit(mean, spread, bags)
    error = np.sqrt(variance / bags.sizes)
    standing = set(test.bags["bag"][test.bags["adjusted_p_value"] <= test.alpha].tolist())
    far = np.abs(mean - expected) > _FAR * error
    return LabelShiftDisplay(
        feature=feature,
        bag=bags.ids,
        position=bags.proportions[:, 1] if bags.n_classes == 2 else expected,
        mean=mean,
        expected=expected,
        error=error,
        suspicious=far & np.array([bag in standing for bag in bags.ids.tolist()], dtype=bool),
        n_classes=bags.n_classes,
        test=test,
    )


def _fit(mean: Floats, spread: Floats, bags: Bags) -> tuple[Floats, Floats]:
    """Expected means on the plane, and the variance within classes.

    The latter is v_i = (mean square in bag i) − Σ_c γ_i[c] (θ_c − γ_i · θ)², pooled over bags.
    """
    G, n = bags.proportions, bags.sizes
    root = np.sqrt(n)
    theta = np.linalg.lstsq(root[:, None] * G, root * mean, rcond=None)[0]
    expected = G @ theta
    within = np.average(spread - G @ theta**2 + expected**2, weights=n)
    # classes may be far apart, but not so far that nothing is left within them
    least = max(0.01 * np.average(spread, weights=n), 1e-12)
    return expected, np.full(len(mean), max(within, least))
