"""The demonstration: the paper's setting on a shipped data set, end to end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import metrics as with_labels

from unbag._arrays import Floats
from unbag.evaluation.measures import plain_estimate
from unbag.paper import LMMCMClassifier, LMMCMClassifierCV, Setting, Trial, make_trial
from unbag.reports import BagsDisplay, RocDisplay, ValidationCurveDisplay, model_report
from unbag.reports.drawing import save_figure


@dataclass(frozen=True, eq=False)
class DemoResult:
    """All that the demonstration found out."""

    dataset: str
    trial: Trial
    model: LMMCMClassifierCV
    scores: Floats
    seconds: float

    def table(self) -> list[tuple[str, float, float, float]]:
        """Measure, label-free estimate, truth for the same scores, truth for new instances."""
        scores, trial = self.scores, self.trial
        new = self.model.decision_function(trial.X_test)
        return [
            (
                "area under the ROC curve",
                plain_estimate("roc_auc", trial.y, scores),
                float(with_labels.roc_auc_score(trial.labels, scores)),
                float(with_labels.roc_auc_score(trial.labels_test, new)),
            ),
            (
                "balanced accuracy",
                plain_estimate("balanced_accuracy", trial.y, scores),
                float(with_labels.balanced_accuracy_score(trial.labels, scores > 0)),
                float(with_labels.balanced_accuracy_score(trial.labels_test, new > 0)),
            ),
        ]

    def write_report(self, path: Path) -> None:
        """Write the page that explains it; the model is trained again without each fold."""
        trial = self.trial
        model_report(
            LMMCMClassifier(self.model.alpha_),
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
    model = LMMCMClassifierCV(verbose=verbose).fit(trial.X, trial.y)
    seconds = time.perf_counter() - start
    scores = np.asarray(model.out_of_fold_scores_)
    return DemoResult(setting.dataset, trial, model, scores, seconds)


def draw_demo(result: DemoResult, path: Path) -> None:
    """Save one picture: what was known, what was chosen, and how good it is."""
    from matplotlib.figure import Figure

    trial = result.trial
    panels: dict[str, Any] = {
        "What is known:\none proportion for each bag": BagsDisplay.from_data(trial.y),
        "How the penalty is chosen:\nrisk on bags not seen, without labels": (
            ValidationCurveDisplay.from_estimator(result.model)
        ),
        "How good it is:\nROC curve without a single label": RocDisplay.from_data(
            trial.y, result.scores, labels=trial.labels
        ),
    }
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    for axes, (title, display) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        display.plot(axes).set_title(title)
    save_figure(figure, path)
