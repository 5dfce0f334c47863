"""The demonstration: the paper's setting on a shipped data set, end to end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics as with_labels

from unbag import metrics
from unbag.bags.bags import Bags, check_bag_target
from unbag.models import KernelMCMClassifier, KernelMCMClassifierCV
from unbag.paper import Setting, Trial, make_trial


@dataclass(frozen=True, eq=False)
class DemoResult:
    """All that the demonstration found out."""

    dataset: str
    trial: Trial
    bags: Bags
    model: KernelMCMClassifierCV
    scores: NDArray[np.float64]
    seconds: float

    def table(self) -> list[tuple[str, float, float, float]]:
        """Measure, label-free estimate, truth for the same scores, truth for new instances."""
        scores, trial = self.scores, self.trial
        new = self.model.decision_function(trial.X_test)
        return [
            (
                "area under the ROC curve",
                metrics.roc_auc_score(trial.y, scores),
                float(with_labels.roc_auc_score(trial.labels, scores)),
                float(with_labels.roc_auc_score(trial.labels_test, new)),
            ),
            (
                "balanced accuracy",
                metrics.balanced_accuracy_score(trial.y, scores),
                float(with_labels.balanced_accuracy_score(trial.labels, scores > 0)),
                float(with_labels.balanced_accuracy_score(trial.labels_test, new > 0)),
            ),
        ]

    def write_report(self, path: Path) -> None:
        """Write the page that explains it; the model is trained again without each fold."""
        from unbag.reports import fit_report

        trial = self.trial
        fit_report(
            KernelMCMClassifier(self.model.alpha_, objective="corrected"),
            trial.X,
            trial.y,
            labels=trial.labels,
            title=f"{self.dataset.upper()}: a classifier from proportions",
            path=path,
            verbose=1,
        )


def run_demo(setting: Setting, seed: int = 0, verbose: int = 1) -> DemoResult:
    """Make bags, fit the kernel classifier with its search, and keep the truth for comparison."""
    trial = make_trial(setting, seed)
    start = time.perf_counter()
    # of large bags the counts tell little more than the proportions, and take their time
    model = KernelMCMClassifierCV(objective="corrected", verbose=verbose).fit(trial.X, trial.y)
    seconds = time.perf_counter() - start
    scores = np.asarray(model.out_of_fold_scores_)
    return DemoResult(setting.dataset, trial, check_bag_target(trial.y), model, scores, seconds)


def draw_demo(result: DemoResult, path: Path) -> None:
    """Save one picture: what was known, what was chosen, and how good it is."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.2), layout="constrained")
    known, chosen, curve = figure.subplots(1, 3)
    _draw_proportions(known, result.bags)
    _draw_search(chosen, result.model)
    _draw_roc(curve, result.trial, result.scores)
    figure.savefig(path, dpi=130)


def _draw_proportions(axes: Any, bags: Bags) -> None:
    axes.hist(bags.proportions[:, 1], bins=np.linspace(0, 1, 21), color="#4c78a8")
    axes.set(
        title=f"What is known: {bags.n_bags} bags,\none proportion each",
        xlabel="share of positives in the bag",
        ylabel="number of bags",
    )


def _draw_search(axes: Any, model: KernelMCMClassifierCV) -> None:
    axes.semilogx(model.alphas_, model.selection_risks_, marker="o", color="#4c78a8")
    axes.axvline(model.alpha_, color="#e45756", linestyle="--", label=f"chosen: {model.alpha_:.2g}")
    axes.set(
        title="How the penalty is chosen:\nrisk on bags not seen, without labels",
        xlabel="penalty α",
        ylabel="corrected risk, out of fold",
    )
    axes.legend(frameon=False)


def _draw_roc(axes: Any, trial: Trial, scores: NDArray[np.float64]) -> None:
    true_fpr, true_tpr, _ = with_labels.roc_curve(trial.labels, scores)
    true_auc = with_labels.roc_auc_score(trial.labels, scores)
    fpr, tpr, _ = metrics.roc_curve(trial.y, scores)
    auc = metrics.roc_auc_score(trial.y, scores)
    axes.plot(fpr, tpr, color="#e45756", label=f"from proportions alone (AUC {auc:.3f})")
    axes.plot(
        true_fpr, true_tpr, color="black", label=f"with the hidden labels (AUC {true_auc:.3f})"
    )
    axes.plot([0, 1], [0, 1], color="0.7", linestyle=":", zorder=0)
    axes.set(
        title="How good it is:\nROC curve without a single label",
        xlabel="false positive rate",
        ylabel="true positive rate",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, max(1.02, tpr.max() + 0.02)),
        aspect="equal",
    )
    axes.legend(frameon=False, loc="lower right")
