"""Test AUC in the paper's first table, five trials each, beside the paper's means.

    python benchmarks/accuracy.py --output results/core_accuracy.csv
    python benchmarks/accuracy.py --datasets magic --proportions 0.5 1 --bag-sizes 8 32

Every trial is a tidy row; rows that are in the output file already are not run again.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path

import pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from tqdm import tqdm

from unbag import KernelMCMClassifierCV
from unbag.paper import Setting, make_trial, published_auc
from unbag.provenance import provenance

KEY = ["dataset", "low", "high", "bag_size", "weights", "seed"]


def run(setting: Setting, weights: str, seed: int) -> dict:
    trial = make_trial(setting, seed)
    start = time.perf_counter()
    model = KernelMCMClassifierCV(weights=weights).fit(trial.X, trial.y)
    seconds = time.perf_counter() - start
    return {
        "dataset": setting.dataset,
        "low": setting.proportions[0],
        "high": setting.proportions[1],
        "bag_size": setting.bag_size,
        "weights": weights,
        "seed": seed,
        "auc": roc_auc_score(trial.labels_test, model.decision_function(trial.X_test)),
        "ber": 1 - balanced_accuracy_score(trial.labels_test, model.predict(trial.X_test)),
        "alpha": model.alpha_,
        "converged": model.converged_,
        "seconds": round(seconds, 2),
        **provenance(),
    }


def summary(rows: pd.DataFrame) -> str:
    lines = [
        "| data set | proportions | bag size | weights | AUC (mean ± sd) | paper | difference |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (dataset, low, high, size, weights), part in rows.groupby(KEY[:-1]):
        paper = published_auc(1, dataset, (low, high), size, "lmmcm").mean
        lines.append(
            f"| {dataset} | [{low:g}, {high:g}] | {size} | {weights} | "
            f"{part.auc.mean():.4f} ± {part.auc.std():.4f} | {paper:.4f} | "
            f"{part.auc.mean() - paper:+.4f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["adult", "magic"])
    parser.add_argument("--proportions", nargs=2, type=float, default=[0.0, 0.5])
    parser.add_argument("--bag-sizes", nargs="+", type=int, default=[8, 32, 128, 512])
    parser.add_argument("--weights", nargs="+", default=["least_squares"])
    parser.add_argument("--trials", type=int, default=5, help="seeds 0, 1, ...")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    low, high = options.proportions
    rows = pd.read_csv(options.output) if options.output.exists() else pd.DataFrame(columns=KEY)
    done = set(rows[KEY].itertuples(index=False, name=None))
    tasks = [
        (Setting(dataset, (low, high), size), weights, seed)
        for dataset, size, weights, seed in product(
            options.datasets, options.bag_sizes, options.weights, range(options.trials)
        )
        if (dataset, low, high, size, weights, seed) not in done
    ]
    found = Parallel(n_jobs=options.jobs, return_as="generator_unordered", inner_max_num_threads=1)(
        delayed(run)(*task) for task in tasks
    )
    for row in tqdm(found, total=len(tasks), unit="trial"):
        one = pd.DataFrame([row])
        rows = one if rows.empty else pd.concat([rows, one])
        rows.sort_values(KEY).to_csv(options.output, index=False)
    print(summary(rows))


if __name__ == "__main__":
    main()
