"""``unbag demo``: the default model on regional totals, compared with hidden labels."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import metrics
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import Bunch

from unbag import bags_from_frame
from unbag._files import check_place
from unbag.cli.options import add_output, page_place
from unbag.cli.output import need, show
from unbag.cli.parser import add_parser
from unbag.datasets import load_flights, load_visits
from unbag.evaluation import Evaluation, evaluate
from unbag.reports import BagsDisplay, RocDisplay
from unbag.reports.drawing import BLUE, GREY, make_axes, save_figure
from unbag.reports.report import make_report
from unbag.tables import make_classifier

_EXAMPLES = """examples:
  unbag demo                                  writes a picture and a page
  unbag demo -o demo.svg --report demo.html   under other names
"""


def add_command(commands: Any) -> None:
    """Add ``unbag demo``."""
    demo = add_parser(
        commands,
        "demo",
        "[options]",
        description="Train on the totals of 120 regions of a shipped data set, and compare with the "
        "labels\nthat were hidden.",
        epilog=_EXAMPLES,
    )
    words = "picture to write"
    add_output(demo, "PICTURE", words, default=Path("unbag-demo.png"))
    words, page = "HTML page to write", Path("unbag-demo.html")
    demo.add_argument("--report", type=page_place, default=page, metavar="PAGE", help=words)


def run(options: argparse.Namespace) -> int:
    """Train, compare, show an uncertain case, and write picture and page."""
    need("pandas", "matplotlib", extra="demo")
    check_place(options.output)
    result = demonstrate()
    _show_result(result)
    _show_uncertain()
    result.draw(options.output)
    result.write_report(options.report, options.command)
    show(f"\nPicture: {options.output}\nPage:    {options.report}")
    return 0


def _show_result(result: Demonstration) -> None:
    visits, evaluation = result.visits, result.evaluation
    n_rows, n_regions = len(visits.frame), len(visits.regions)
    show(
        f"A shop has data on {n_rows:,} visitors of May, but does not know who bought. For each of "
        f"{n_regions} regions\nit knows how many did:\n"
    )
    show(f"{visits.frame.head(3).to_string(index=False)}\n")
    show(f"{visits.regions.head(3).to_string(index=False)}\n")
    show(
        f"unbag trained on these {n_regions} totals in {result.seconds:.1f} s, without labels. On "
        f"{len(result.labels_new):,} new visitors of June, whose\nlabels it never sees, it comes close to "
        "a model trained on all labels:\n"
    )
    show(f"{'':45}{'AUC':>7}{'log-loss':>11}   (lower is better)")
    for name, auc, loss in result.contenders:
        show(f"{name:45}{auc:7.3f}" + (f"{loss:11.3f}" if loss is not None else ""))
    estimate = evaluation["roc_auc"]
    truth = next(c.roc_auc for c in result.contenders if c.name.startswith("unbag"))
    show(
        f"\nHow accurate is it, by totals alone? {evaluation.verdict.lead}\n"
        f"Estimated AUC {estimate.value:.3f} (95% interval {estimate.low:.3f} to "
        f"{estimate.high:.3f}); true AUC {truth:.3f}."
    )


def _show_uncertain() -> None:
    """Train on late flights per day, without the column that shows the delay, and evaluate."""
    flights = load_flights()
    table = flights.frame.drop(columns="dep_delay")
    first = (table["date"] < "2013-07").to_numpy()
    known: dict[str, Any] = {"on": "date", "positives": "late", "unmatched": "drop"}
    X_new, y_new = bags_from_frame(table[~first], flights.days, **known)
    model = make_classifier().fit(*bags_from_frame(table[first], flights.days, **known))
    scores = model.decision_function(X_new)
    found = evaluate(y_new, scores)
    estimate, truth = found["roc_auc"], metrics.roc_auc_score(flights.target[~first], scores)
    show(
        "\nTotals are not always enough. Late flights per day, without the departure delay:\n"
        f"{found.verdict.lead}\n"
        f"Estimated AUC from {found.n_bags} days: {estimate.low:.2f} to {estimate.high:.2f}; "
        f"true AUC {truth:.2f}.\n"
        "Labels of a few hundred flights would narrow the range: unbag sample-labels."
    )


class Contender(NamedTuple):
    """A way to score new visitors, and its accuracy by the hidden labels."""

    name: str
    roc_auc: float
    log_loss: float | None


@dataclass(frozen=True, eq=False)
class Demonstration:
    """A model trained on totals, its estimated accuracy, and its true one."""

    visits: Bunch
    model: Any
    y: Any
    seconds: float
    X_new: Any
    y_new: Any
    labels_new: Any
    evaluation: Evaluation
    contenders: list[Contender]

    def draw(self, path: Path) -> None:
        """Save one picture: the totals, the ROC curve without labels, and the contenders."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(12, 4.2), layout="constrained")
        known, curve, comparison = figure.subplots(1, 3)
        display = BagsDisplay.from_data(self.y)
        display.plot(known).set_title("Known: one total per region")
        roc = RocDisplay.from_evaluation(self.evaluation, labels=self.labels_new)
        roc.plot(curve).set_title("ROC curve on new visitors")
        _draw_contenders(comparison, self.contenders)
        save_figure(figure, path)

    def write_report(self, path: Path, command: str) -> None:
        """Write the report page on the new visitors, with the truth beside each estimate."""
        title = "Which visitors buy? Visitors of June, by a model of the totals of May"
        known = {"title": title, "command": command, "labels": self.labels_new}
        make_report(self.model, self.evaluation, self.X_new, self.y_new, **known).save(path)


def demonstrate() -> Demonstration:
    """Train on the totals of May, and score the visitors of June."""
    import pandas as pd

    may, june = load_visits("may"), load_visits("june")
    (X, y), (X_new, y_new) = _bags(may), _bags(june)
    start = time.perf_counter()
    model = make_classifier().fit(X, y)
    seconds = time.perf_counter() - start
    features, scores = model[:-1], model.decision_function(X_new)
    evaluation = evaluate(
        y_new, scores, X=features.transform(X_new), feature_names=features.get_feature_names_out()
    )
    columns = {name: metrics.roc_auc_score(june.target, X_new[name]) for name in june.numerical}
    best = max(columns, key=columns.__getitem__)
    contenders = [Contender(f"best single column ({best})", float(columns[best]), None)]
    # each row as a positive and as a negative, weighted by the rate of its region
    twice, share = pd.concat([X, X], ignore_index=True), np.asarray(y["proportion"])
    soft = _logistic_regression(may).fit(
        twice, np.repeat([1, 0], len(X)), logisticregression__sample_weight=np.r_[share, 1 - share]
    )
    named = {
        "each visitor labelled with the regional rate": soft,
        f"unbag, from {len(may.regions)} totals": model,
        f"logistic regression, from {len(X):,} labels": _logistic_regression(may).fit(
            X, may.target
        ),
    }
    for name, fitted in named.items():
        probability = fitted.predict_proba(X_new)[:, 1]
        auc = float(metrics.roc_auc_score(june.target, probability))
        contenders.append(Contender(name, auc, float(metrics.log_loss(june.target, probability))))
    return Demonstration(may, model, y, seconds, X_new, y_new, june.target, evaluation, contenders)


def _bags(visits: Bunch) -> tuple[Any, Any]:
    X, y = bags_from_frame(visits.frame, visits.regions, on="region", positives="purchases")
    return X, y


def _logistic_regression(visits: Bunch) -> Any:
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), visits.categorical),
        (StandardScaler(), visits.numerical),
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000))


def _draw_contenders(ax: Any, contenders: list[Contender]) -> None:
    make_axes(ax)
    aucs = [contender.roc_auc for contender in contenders]
    colors = [BLUE if c.name.startswith("unbag") else GREY for c in contenders]
    places = -np.arange(len(contenders))
    ax.barh(places, np.subtract(aucs, 0.5), left=0.5, color=colors, height=0.3)
    for place, contender in zip(places, contenders, strict=True):
        ax.text(0.505, place + 0.22, contender.name, va="bottom", fontsize=9)
        ax.text(contender.roc_auc, place, f" {contender.roc_auc:.3f}", va="center", fontsize=9)
    ax.set(
        xlim=(0.5, 1),
        ylim=(-len(aucs) + 0.6, 0.6),
        yticks=[],
        xlabel="AUC on new visitors, by hidden labels",
    )
    ax.set_title("AUC, compared with other ways to train")
