"""Pictures of bags: proportions, sizes, and whether bag means are linear in the proportions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.linear_model import LinearRegression

from unbag._arrays import Bools, Floats
from unbag._checks import check_choice
from unbag._optional import make_frame
from unbag._text import counted, shown
from unbag.bags.bags import Bags, check_bag_target
from unbag.evaluation.label_shift import Columns, LabelShiftTest, columns_test, read_columns
from unbag.evaluation.sample_size import EffectiveSampleSize, effective_sample_size
from unbag.reports.drawing import BLUE, GREY, ORANGE, Display, add_legend_above

BagsView = Literal["proportions", "sizes"]

# Bags up to which each has an error bar, and is drawn by itself; of those that stand out, how many are crossed out and
# named, and from how many standard errors on a bag does.
_WITH_BARS, _SOME, _CROSSED, _NAMED, _FAR = 100, 400, 10, 3, 2.5


@dataclass(frozen=True, eq=False, repr=False)
class BagsDisplay(Display):
    """Sizes, proportions and information of the bags.

    Attributes
    ----------
    bags : Bags
        Sizes and proportions.
    information : EffectiveSampleSize
        How much each bag contributes.
    view : {"proportions", "sizes"}, default="proportions"
        What is drawn: how the proportions of classes are spread over bags, or how large bags are.
    """

    bags: Bags
    information: EffectiveSampleSize
    view: BagsView = "proportions"

    @classmethod
    def from_data(cls, y: Any, *, view: BagsView = "proportions") -> Self:
        """Read the bags of a target made by `unbag.bag_target`, or of plain labels.

        Parameters
        ----------
        y : as in `effective_sample_size`
        view : {"proportions", "sizes"}, default="proportions"
            What is drawn.

        Returns
        -------
        display : BagsDisplay
            The display.
        """
        check_choice(view, get_args(BagsView), "view")
        return cls(check_bag_target(y), effective_sample_size(y), view)

    def frame(self) -> Any:
        """One row per bag, the most informative first: name, size, proportions and share."""
        return make_frame(self.information.by_bag)

    def _draw(self, ax: Any) -> None:
        (self._proportions if self.view == "proportions" else self._sizes)(ax)

    def _proportions(self, ax: Any) -> None:
        shares, classes = self.bags.proportions, self.bags.class_names
        if len(classes) == 2:
            bins = np.linspace(min(0.0, shares.min()), max(1.0, shares.max()), 21)
            ax.hist(shares[:, 1], bins=bins, color=BLUE)
            ax.set(xlabel="proportion of positives in the bag", ylabel="number of bags")
            ax.locator_params(axis="y", integer=True)
            return
        rows = np.arange(len(classes))
        low, first, middle, third, high = np.quantile(shares, [0, 0.25, 0.5, 0.75, 1], axis=0)
        ax.hlines(rows, low, high, color=GREY, linewidth=1.2, label="all bags")
        ax.hlines(rows, first, third, color=BLUE, linewidth=7, label="half of the bags")
        ax.plot(middle, rows, "D", color=ORANGE, markersize=5, label="median")
        ax.set_yticks(rows, [shown(name, 20) for name in classes], parse_math=False)
        ax.set(xlabel="proportion of the class in the bag", ylabel="class", xlim=(-0.02, 1.02))
        ax.set_ylim(len(classes) - 0.5, -0.5)
        add_legend_above(ax)

    def _sizes(self, ax: Any) -> None:
        sizes = self.bags.sizes
        low, high = sizes.min(), sizes.max()
        if high > 30 * low:
            ax.hist(sizes, bins=np.geomspace(low, high * 1.0001, 21), color=BLUE)
            ax.set_xscale("log")
        else:
            n_bins = int(min(20, high - low + 1))
            ax.hist(sizes, bins=np.linspace(low - 0.5, high + 0.5, n_bins + 1), color=BLUE)
        ax.set(xlabel="rows in the bag", ylabel="number of bags")

    def __str__(self) -> str:
        sizes, shares = self.bags.sizes, self.bags.proportions
        spread = ", ".join(
            f"{shown(name)}: {shares[:, c].min():.3g} to {shares[:, c].max():.3g}"
            for c, name in enumerate(self.bags.class_names)
        )
        return (
            f"{counted(self.bags.n_bags, 'bag')} of {sizes.min()} to {sizes.max()} rows, "
            f"{self.bags.n_instances:,} in all.\nProportions of the classes: {spread}."
        )


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
        X, y : as in `label_shift_test`
        feature : str, optional
            The column to show; by default that of the least p-value.
        feature_names : as in `label_shift_test`

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
        order, ok = np.argsort(self.position), ~self.suspicious
        bars = len(self.bag) <= _WITH_BARS
        ax.errorbar(
            self.position[ok],
            self.mean[ok],
            yerr=2 * self.error[ok] if bars else None,
            fmt="o",
            color=BLUE,
            markersize=4 if bars else 2.5,
            elinewidth=0.7,
            label="bag, ±2 std. errors" if bars else "bag",
            rasterized=len(self.bag) > _SOME,  # pictures of many bags stay small
        )
        line = self.position[order], self.expected[order]
        ax.plot(*line, color=GREY, linewidth=1.5, label="expected")
        self._mark_suspicious(ax)
        two = self.n_classes == 2
        x_label = "proportion of positives in the bag" if two else "expected mean rank, in %"
        ax.margins(y=0.12)
        ax.set(xlabel=x_label, ylabel=f"mean rank of {shown(self.feature, 16)}, in %")
        add_legend_above(ax, columnspacing=1)

    def _mark_suspicious(self, ax: Any) -> None:
        """Cross out the worst bags, and name some of them."""
        bad = np.flatnonzero(self.suspicious)
        worst = bad[np.argsort(-np.abs(self.residual[bad]), kind="stable")]
        if len(worst) == 0:
            return
        label = "stands out" if len(bad) <= _CROSSED else f"the {_CROSSED} worst of {len(bad):,}"
        for some, look in (
            (worst[_CROSSED:], {"marker": ".", "markersize": 3}),
            (worst[:_CROSSED], {"marker": "X", "markersize": 8, "label": label}),
        ):
            many = len(some) > _SOME
            at = self.position[some], self.mean[some]
            ax.plot(*at, color=ORANGE, linestyle="", rasterized=many, **look)
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
    G, n = bags.proportions, bags.sizes
    ranks = 100 * (rankdata(values) - 0.5) / bags.n_instances
    mean = bags.means(ranks)
    spread = np.maximum(bags.means(ranks**2) - mean**2, 0)
    theta = LinearRegression(fit_intercept=False).fit(G, mean, sample_weight=n).coef_
    expected = G @ theta
    # variance within classes, v_i = (mean square in bag i) − Σ_c γ_i[c] (θ_c − γ_i · θ)², pooled;
    # classes may be far apart, but not so far that nothing is left within them
    within = np.average(spread - G @ theta**2 + expected**2, weights=n)
    error = np.sqrt(max(within, 0.01 * np.average(spread, weights=n), 1e-12) / n)
    standing = test.bags["bag"][test.bags["adjusted_p_value"] <= test.alpha]
    far = np.abs(mean - expected) > _FAR * error
    return LabelShiftDisplay(
        feature=feature,
        bag=bags.ids,
        position=G[:, 1] if bags.n_classes == 2 else expected,
        mean=mean,
        expected=expected,
        error=error,
        suspicious=far & np.isin(bags.ids, standing),
        n_classes=bags.n_classes,
        test=test,
    )
