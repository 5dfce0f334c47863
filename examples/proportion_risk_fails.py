"""Getting the proportions of bags right is not the same as getting instances right.

This is the example in the paper's appendix. Negatives are uniform on [0, 1], positives have the
density 2x there, and classifiers say "positive" above a threshold t. Then

    P(X > t | negative) = 1 − t,    P(X > t | positive) = 1 − t²,

the balanced error ½(t² + 1 − t) is smallest at t = ½, and the corrected risk is an unbiased
estimate of it. The empirical proportion risk (EPR) instead looks for the threshold that declares
the right share of every bag positive. In one large bag of proportion ½ that is the median of the
mixture, (√5 − 1)/2 ≈ 0.618, for any power of the difference.

With many bags whose proportions γ are uniform on [0, 1], a share of (1 − t) + γ(t − t²) of a
large bag lies above t, and its difference from γ is (1 − t) − γq with q = 1 − t + t². So

    EPR(t) = (1 − t)² − (1 − t)q + q²/3     for squared differences,
    EPR(t) = (1 − t)²/q − (1 − t) + q/2     for absolute ones,

and neither is smallest at ½. (The paper puts the share above t in all bags together into the
place of each bag's own, which leads to 0.618 once more.)

Run it with ``python examples/proportion_risk_fails.py [--figure curves.png]``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag import bag_target, check_bag_target
from unbag.evaluation.measures import Risk, make_sample

GOLDEN = (sqrt(5) - 1) / 2
GRID, FINE_GRID = np.linspace(0, 1, 201), np.linspace(0, 1, 10_001)
POWERS = {"squared": 2, "absolute": 1}

Curve = NDArray[np.float64]


def balanced_error(t: Curve) -> Curve:
    """Mean of the error rates on the two classes."""
    return (t**2 + 1 - t) / 2


def epr_of_one_bag(t: Curve, power: int) -> Curve:
    """EPR of a single large bag of proportion one half."""
    return np.abs((1 - t + 1 - t**2) / 2 - 0.5) ** power


def epr_of_many_bags(t: Curve, power: int) -> Curve:
    """EPR of large bags whose proportions are uniform on [0, 1]."""
    above, q = 1 - t, 1 - t + t**2
    if power == 2:
        return above**2 - above * q + q**2 / 3
    return above**2 / q - above + q / 2


def draw_bags(n_bags: int, bag_size: int, rng: np.random.Generator) -> tuple[Curve, Any]:
    """Draw instances and their target, with the observed proportion of every bag."""
    gamma = rng.uniform(size=n_bags)
    labels = rng.uniform(size=(n_bags, bag_size)) < gamma[:, None]
    uniform = rng.uniform(size=(n_bags, bag_size))
    x = np.where(labels, np.sqrt(uniform), uniform)
    bag = np.repeat(np.arange(n_bags), bag_size)
    return x.ravel(), bag_target(bag, counts=labels.sum(axis=1)[bag])


def fit_by_epr(x: Curve, y: Any, power: int) -> float:
    """Threshold that gets the proportions of bags as right as possible."""
    bags = check_bag_target(y)
    shares = np.stack([bags.means((x > t).astype(float)) for t in GRID])
    return best(np.mean(np.abs(shares - bags.proportions[:, 1]) ** power, axis=1))


def fit_by_corrected_risk(x: Curve, y: Any) -> float:
    """Threshold of least balanced error, as estimated from the same bags."""
    columns = (np.column_stack([t - x, x - t]) for t in GRID)
    return best(np.array([Risk("zero_one").value(make_sample(y, scores)) for scores in columns]))


def best(risks: Curve) -> float:
    """Threshold of the smallest risk on a grid from 0 to 1."""
    return int(np.argmin(risks)) / (len(risks) - 1)


def thresholds(n_draws: int, n_bags: int, bag_size: int, seed: int) -> dict[str, Curve]:
    """Thresholds that each method chooses, draw by draw."""
    rng = np.random.default_rng(seed)
    draws = [draw_bags(n_bags, bag_size, rng) for _ in range(n_draws)]
    methods: dict[str, Callable[[Curve, Any], float]] = {
        f"EPR, {name}": partial(fit_by_epr, power=power) for name, power in POWERS.items()
    }
    methods["corrected risk"] = fit_by_corrected_risk
    return {name: np.array([fit(x, y) for x, y in draws]) for name, fit in methods.items()}


def print_table(found: dict[str, Curve]) -> None:
    """One line per method: what it chooses, and what that costs."""
    large = {f"EPR, {n}": best(epr_of_many_bags(FINE_GRID, p)) for n, p in POWERS.items()}
    large["corrected risk"] = best(balanced_error(FINE_GRID))
    print(f"{'threshold by':<15} {'one bag':>8} {'large bags':>11} {'bags drawn':>16} {'error':>7}")
    for name, drawn in found.items():
        one = f"{GOLDEN:.3f}" if name.startswith("EPR") else "none"
        spread = f"{drawn.mean():.3f} ± {drawn.std():.3f}"
        error = balanced_error(drawn).mean()
        print(f"{name:<15} {one:>8} {large[name]:>11.3f} {spread:>16} {error:>7.4f}")
    print(f"The least balanced error is {balanced_error(np.array(0.5)):.4f}, at 0.500.")


def save_figure(path: str) -> None:
    """Draw the curves in the limit of large bags."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("The figure needs matplotlib; install it with: pip install matplotlib")
        return
    axes = (figure := Figure(figsize=(6, 4), layout="constrained")).subplots()
    curves = {"balanced error = corrected risk": balanced_error(GRID)}
    curves |= {f"EPR, {n}": epr_of_many_bags(GRID, p) for n, p in POWERS.items()}
    for label, risks in curves.items():
        (line,) = axes.plot(GRID, risks, label=label)
        axes.axvline(best(risks), color=line.get_color(), linestyle=":")
    axes.set(xlabel="threshold", ylabel="risk", ylim=(0, 0.7))
    axes.set_title("Each risk is least at its dotted line")
    axes.legend()
    figure.savefig(path)
    print(f"Saved {path}.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw bags, choose thresholds, and say what was chosen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", metavar="PATH", help="where to save a picture of the risks")
    parser.add_argument("--draws", type=int, default=5, help="how often bags are drawn")
    parser.add_argument("--bags", type=int, default=300, help="bags in a draw")
    parser.add_argument("--size", type=int, default=100, help="instances in a bag")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    print_table(thresholds(options.draws, options.bags, options.size, options.seed))
    if options.figure:
        save_figure(options.figure)


if __name__ == "__main__":
    main()
