"""Images in random bags: a network from proportions alone, by the final epoch.

    unbag-bench run images fashion --sizes 16 64 256 1024 --epochs 100 --batch-rows 2048
    unbag-bench run images cifar10 --methods features fine --device cuda --seconds 240

``unbag-bench fetch images`` gets the images. A row has its learning curve; test labels are for the curve, and
choose no epoch.

    proportion   cross-entropy of mean probabilities and shares (DLLP), on weak views
    likelihood   that of the counts, by the saddlepoint approximation
    conditional  the same, given the counts of all bags of a batch together
    annealed     the same, with counts that are known up to four draws at first, annealed-1 one
    narrowing    the same, with counts that vary as the proportion loss assumes at first, and half
                 of the way on as rows do; narrowing-late at the end
    views        the likelihood, and strong views that learn the posteriors which the counts give
                 the classes of weak ones, weighed by how sure these are
    features     the linear model of the library on self-supervised features (SimCLR)
    fine         views, from these features and that model on
    fine-counts  the likelihood from the same start, without strong views; fine-conditional the
                 same, given the counts of all bags of a batch together
    fine-shares  the proportion loss from the same start: what the start alone is worth to it

All of them report averaged weights (EMA), and the last ones beside them. The number of epochs is
given, or what fits a number of seconds, by a few steps that are timed before learning starts. A
body that was trained without bags is kept in ``--work`` and used again.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import cache
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from unbag_bench.studies.image_training import (
    SCRATCH_COUNTS,
    BagLoss,
    Data,
    ImageSet,
    Settings,
    Training,
    accuracy,
    body_without_bags,
    fit_head,
    losses_held_out,
    train,
)
from unbag_bench.studies.image_views import RECIPES
from unbag_bench.study import Row, Study, table
from unbag_bench.suites import IMAGES, data_folder, load_images

FROM_SCRATCH = ("proportion", *SCRATCH_COUNTS, "views")
FROM_FEATURES = ("features", "fine", "fine-counts", "fine-conditional", "fine-shares")
METHODS = FROM_SCRATCH + FROM_FEATURES

# Of CIFAR-10, in percent, by bag size: DLLP, and the best of any method with its name.
PUBLISHED = {
    16: (91.6, 95.2, "SoftMatch"),
    64: (79.8, 94.6, "L²P-AHIL"),
    256: (44.9, 94.0, "RLPL"),
}
MOST_ROWS = 2048
HELD_OUT = ("counts held out", "shares held out")
CONFIRMED = ("conditional", "proportion")
# Those of the first run of each panel, which has the legend.
FIRST_SEEDS = (0, 8, 10)


def tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    if options.epochs is None and options.seconds is None:
        raise SystemExit("Give --epochs, --seconds or both.")
    if options.pretrain_epochs is None and options.pretrain_seconds is None:
        options.pretrain_seconds = 240.0
    return [
        {
            "dataset": options.dataset,
            "bag_size": size,
            "method": method,
            "seed": options.seed,
            "batch_rows": options.batch_rows,
            "split": options.split,
            "held_out": options.held_out,
            "options": options,
        }
        for size in options.sizes
        for method in options.methods
    ]


def run_one(
    dataset: str,
    bag_size: int,
    method: str,
    seed: int,
    batch_rows: int,
    split: int,
    held_out: float,
    options: Any,
) -> Row:
    """Train and test once."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    settings = settings_of(options)
    torch.manual_seed(seed)
    found = load(dataset, options.data, options.rows, split)
    start = time.perf_counter()
    data = Data.draw(found, dataset, bag_size, seed, settings.device, held_out)
    row: Row = {"n_bags": len(data.rows), "test_rows": len(data.test_labels)}
    row["device"] = name_of(settings.device)
    rate = options.learning_rate
    if method in FROM_FEATURES:
        body = options.work / f"{dataset}-{split}-{seed}-{len(found.labels)}.pt"
        given = options.pretrain_epochs, options.pretrain_seconds
        network = body_without_bags(data, settings, body, *given)
        row["without_bags"] = json.loads(body.with_suffix(".json").read_text())
        row["penalty"] = fit_head(network, data, settings)
        row["accuracy_of_features"] = accuracy(network, data, settings)
        rate /= 2
    else:
        network = data.recipe.network().to(settings.device, memory_format=torch.channels_last)
    if method == "features":
        row["accuracy"] = row["accuracy_of_features"]
        return row | {"seconds": round(time.perf_counter() - start, 1)}
    curve: list[Row] = []

    def after(epoch: int, training: Training) -> None:
        curve.append(
            {
                "epoch": epoch,
                "accuracy": accuracy(training.averaged, data, settings),
                "last": accuracy(training.network, data, settings),
            }
        )
        print(f"  {curve[-1]}, {time.perf_counter() - start:.0f} s", flush=True)

    loss = BagLoss(data, method, batch_rows)
    _, averaged, epochs = train(network, loss, settings, rate, after)
    if held_out:
        row["losses_held_out"] = losses_held_out(averaged, data, settings)
    return row | {
        "accuracy": curve[-1]["accuracy"],
        "accuracy_last": curve[-1]["last"],
        "epochs": epochs,
        "steps": epochs * loss.steps,
        "learning_rate": rate,
        "seconds": round(time.perf_counter() - start, 1),
        "curve": curve,
    }


@cache
def load(dataset: str, folder: Path, rows: int | None, split: int) -> ImageSet:
    """Images to learn from and to test on; with a split other than 0, they are shuffled again."""
    images, labels = load_images(dataset, folder)
    n = IMAGES[dataset]
    if split:
        order = np.random.default_rng(split).permutation(len(labels))
        images, labels = images[order], labels[order]
    parts = images[:n], labels[:n], images[n:], labels[n:]
    return ImageSet(*(part[:rows] for part in parts))


def settings_of(options: Any) -> Settings:
    device = torch.device(options.device)
    return Settings(
        device=device,
        half=device.type == "cuda" if options.half is None else options.half,
        compiled=options.compile,
        batch_rows=options.batch_rows,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
        decay=options.decay,
        epochs=options.epochs,
        seconds=options.seconds,
    )


def name_of(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def page(rows: list[Row]) -> list[str]:
    apart = [row for row in rows if row["held_out"]]
    rows = [row for row in rows if not row["held_out"]]
    by_set = {name: alike([row for row in rows if row["dataset"] == name]) for name in RECIPES}
    columns = ["method", "rows a batch", "seeds", "epochs", "seconds", "test accuracy"]
    columns += ["least to most", "features alone"]
    return [
        "Test accuracy of the final epoch, by averaged weights, mean of the seeds and what they",
        "range over. *Features alone*: that of the",
        "linear model on self-supervised features, where a method starts from it. Seconds are all",
        "those of a run: timed steps, tests and, if features were not there yet, their training.",
        "",
        "## Fashion-MNIST, with other images to test on",
        "",
        "Images are shuffled again, and a fifth of the bags is held out. Of these",
        "bags: −log Pr(counts) a row, and cross-entropy of mean probabilities, means of the seeds.",
        "",
        *table([*["bags of", *columns], *HELD_OUT], list(map(cells_apart, alike(apart)))),
        "",
        *chain.from_iterable(
            [f"## {title}", "", *table(["bags of", *columns], list(map(cells, by_set[name]))), ""]
            for name, title in (("mnist", "MNIST"), ("fashion", "Fashion-MNIST"))
        ),
        "## CIFAR-10",
        "",
        *table(
            ["bags of", *columns, "published: DLLP", "published: best of any method"],
            [cells(group) + published(group[0]["bag_size"]) for group in by_set["cifar10"]],
        ),
        "",
        "## Learning curves",
        "",
        f"Batches of {MOST_ROWS:,} rows of MNIST and Fashion-MNIST, and CIFAR-10.",
        "",
        "![test accuracy by epoch](images.png)",
    ]


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(
        rows,
        key=lambda row: (row["bag_size"], row["batch_rows"], METHODS.index(row["method"])),
    )


def alike(rows: list[Row]) -> list[list[Row]]:
    """Rows that differ in their seed alone, together."""
    key = ["bag_size", "batch_rows", "method"]
    return [list(group) for _, group in groupby(ordered(rows), itemgetter(*key))]


def cells(group: list[Row]) -> list[str]:
    row, found = group[0], [row["accuracy"] for row in group]
    starts = [row["accuracy_of_features"] for row in group if "accuracy_of_features" in row]
    epochs = [row["epochs"] for row in group if "epochs" in row]
    return [
        f"{row['bag_size']:,}",
        row["method"],
        f"{row['batch_rows']:,}",
        str(len(group)),
        span(epochs, "d"),
        span([row["seconds"] for row in group], ".0f"),
        f"{fmean(found):.4f}",
        span(found, ".4f") if len(group) > 1 else "–",
        f"{fmean(starts):.4f}" if starts else "–",
    ]


def cells_apart(group: list[Row]) -> list[str]:
    losses = [row["losses_held_out"] for row in group if "losses_held_out" in row]
    kinds = ("counts", "shares") if losses else ()
    means = [f"{fmean(loss[kind] for loss in losses):.4f}" for kind in kinds]
    return [*cells(group), *(means or ["–", "–"])]


def span(values: list[Any], form: str) -> str:
    """From the least to the most."""
    ends = dict.fromkeys(f"{end:{form}}" for end in (min(values), max(values))) if values else "–"
    return " to ".join(ends)


def published(size: int) -> list[str]:
    if size not in PUBLISHED:
        return ["–", "–"]
    dllp, best, method = PUBLISHED[size]
    return [f"{dllp / 100:.3f}", f"{best / 100:.3f} ({method})"]


def draw_figure(rows: list[Row], path: Path) -> None:
    """Test accuracy by epoch, one panel for each set of images."""
    from matplotlib.figure import Figure

    shown = [row for row in ordered(rows) if "curve" in row]
    # of both losses with all seeds
    apart = [row for row in shown if row["held_out"] and row["method"] in CONFIRMED]
    panels = {"fashion, other images to test on": apart}
    panels |= {
        name: [row for row in shown if row["dataset"] == name and not row["held_out"]]
        for name in RECIPES
    }
    figure = Figure(figsize=(17, 5.5), layout="constrained")
    sizes = sorted({row["bag_size"] for row in shown})
    dashes: dict[str, Any] = {"proportion": ":", "likelihood": "-", "views": "-.", "fine": "--"}
    dashes |= {"conditional": (0, (2, 1)), "fine-counts": (0, (5, 5)), "fine-shares": (0, (1, 4))}
    dashes |= {"annealed": (0, (8, 1)), "annealed-1": (0, (8, 3))}
    dashes |= {"narrowing": (0, (4, 1, 1, 1)), "narrowing-late": (0, (4, 3, 1, 3))}
    for panel, (title, own) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        for row in own:
            if row["dataset"] == "fashion" and row["batch_rows"] != MOST_ROWS:
                continue
            panel.plot(
                [point["epoch"] for point in row["curve"]],
                [point["accuracy"] for point in row["curve"]],
                color=f"C{sizes.index(row['bag_size'])}",
                ls=dashes[row["method"]],
                label=f"{row['bag_size']:,}, {row['method']}"
                if row["seed"] in FIRST_SEEDS
                else None,
            )
        panel.set(title=title, xlabel="epoch")
        panel.grid(alpha=0.3)
        panel.legend(
            frameon=False, fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.15)
        )
    figure.axes[0].set_ylabel("test accuracy")
    figure.savefig(path, dpi=110)


STUDY = Study(
    name="images",
    title="Images in random bags",
    keys=["dataset", "bag_size", "method", "seed", "batch_rows", "split", "held_out"],
    tasks=tasks,
    measure=run_one,
    page=page,
    options={
        "dataset": {"choices": list(RECIPES)},
        "--sizes": {"type": int, "nargs": "+", "default": [16, 64, 256]},
        "--methods": {"nargs": "+", "choices": METHODS, "default": METHODS[:2]},
        "--data": {"type": Path, "default": data_folder(), "metavar": "FOLDER"},
        "--work": {"type": Path, "default": data_folder() / "bodies", "metavar": "FOLDER"},
        "--device": {"default": "cuda" if torch.cuda.is_available() else "cpu"},
        "--seed": {"type": int, "default": 0},
        "--split": {"type": int, "default": 0, "help": "other than 0: other images to test on"},
        "--held-out": {"type": float, "default": 0.0, "help": "share of bags to choose by"},
        "--epochs": {"type": int, "help": "of a run, at most"},
        "--seconds": {"type": float, "help": "that a run may learn"},
        "--pretrain-epochs": {"type": int, "help": "without bags, at most"},
        "--pretrain-seconds": {"type": float, "help": "without bags; 240 if neither is given"},
        "--batch-rows": {"type": int, "default": 1024},
        "--learning-rate": {"type": float, "default": 2e-3},
        "--weight-decay": {"type": float, "default": 0.05},
        "--decay": {"type": float, "default": 0.998, "help": "of averaged weights"},
        "--rows": {"type": int, "help": "only so many, for a try"},
        "--compile": {"action": "store_true"},
        "--half": {"action": argparse.BooleanOptionalAction},
    },
    figure=draw_figure,
    packages=["torch"],
)
