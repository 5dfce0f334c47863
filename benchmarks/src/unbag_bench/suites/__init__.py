"""Methods beside each other on many kinds of bags: what ``unbag-bench reproduce --suite`` runs."""

from unbag_bench.suites.draws import count_target, draw_bags, pick_rows, pick_split, split_bags
from unbag_bench.suites.files import (
    IMAGES,
    NATURAL,
    TABLES,
    data_folder,
    load_images,
    load_natural,
    load_table,
    natural_frame,
)
from unbag_bench.suites.landscape import LANDSCAPE, load_landscape, published
from unbag_bench.suites.manifests import Manifest, read_manifest
from unbag_bench.suites.methods import METHODS
from unbag_bench.suites.tasks import SUITES, SuiteTask, make_suite_tasks

__all__ = [
    "IMAGES",
    "LANDSCAPE",
    "METHODS",
    "NATURAL",
    "SUITES",
    "TABLES",
    "Manifest",
    "SuiteTask",
    "count_target",
    "data_folder",
    "draw_bags",
    "load_images",
    "load_landscape",
    "load_natural",
    "load_table",
    "make_suite_tasks",
    "natural_frame",
    "pick_rows",
    "pick_split",
    "published",
    "read_manifest",
    "split_bags",
]
