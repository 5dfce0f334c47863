"""A whole search on MAGIC against the textbook version, in one run on one core.

python benchmarks/search.py                 # both, 5 folds, 6 λ, T = 6,144, bags of 128
python benchmarks/search.py --memory        # peak memory of one search at T = 8,192 (Adult)
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from textbook import ALPHAS, search
from unbag import KernelMCMClassifierCV
from unbag._provenance import provenance_line
from unbag.paper import Setting, make_trial


def compare(seeds, bag_size):
    setting = Setting("magic", (0.0, 0.5), bag_size)
    rows = []
    for seed in seeds:
        trial = make_trial(setting, seed)
        start = time.perf_counter()
        model = KernelMCMClassifierCV(alphas=ALPHAS, objective="corrected").fit(trial.X, trial.y)
        ours = time.perf_counter() - start
        auc = roc_auc_score(trial.labels_test, model.decision_function(trial.X_test))
        start = time.perf_counter()
        KernelMCMClassifierCV(objective="corrected").fit(trial.X, trial.y)
        fine = time.perf_counter() - start
        start = time.perf_counter()
        scores, alpha, stopped = search(trial.X, trial.y, trial.X_test)
        textbook = time.perf_counter() - start
        textbook_auc = roc_auc_score(trial.labels_test, scores)
        rows.append((textbook, ours, fine, textbook_auc, auc))
        print(
            f"seed {seed}: textbook {textbook:.1f} s, AUC {textbook_auc:.4f}, λ = {alpha:g}, "
            f"{stopped} of 30 fits stopped at 100 iterations; ours {ours:.2f} s, "
            f"AUC {auc:.4f}, λ = {model.alpha_:g}: {textbook / ours:.1f} times faster "
            f"(11 λ instead of 6 in {fine:.2f} s)",
            flush=True,
        )
    mean = np.mean(rows, axis=0)
    print(f"mean: {mean[0] / mean[1]:.1f} times faster, AUC {mean[3]:.4f} -> {mean[4]:.4f}")


def peak_memory():
    trial = make_trial(Setting("adult", (0.0, 0.5), 128), 0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.perf_counter()
    KernelMCMClassifierCV(objective="corrected").fit(trial.X, trial.y)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"Adult, T = 8,192, 5 folds, 11 λ: peak RSS {peak:.0f} MB "
        f"({before:.0f} MB before the fit), {seconds:.1f} s"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", action="store_true", help="peak memory instead of speed")
    parser.add_argument("--seeds", type=int, default=1, help="number of trials")
    parser.add_argument("--bag-size", type=int, default=128)
    options = parser.parse_args()
    print(provenance_line())
    with threadpool_limits(1):
        if options.memory:
            peak_memory()
        else:
            compare(range(options.seeds), options.bag_size)


if __name__ == "__main__":
    main()
