"""Images in bags: ten classes, networks that learn them, and what is missing is named."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score

from unbag_bench.suites.files import IMAGES, load_images
from unbag_bench.suites.image_network import ImageNetwork
from unbag_bench.suites.methods import METHODS
from unbag_bench.suites.runner import run_suite_task
from unbag_bench.suites.tasks import IMAGE_SIZES, SUITES, SuiteTask, load_data, make_suite_tasks

SET = "mnist 16 small"
NETWORKS = ["network", "network-proportion", "network-forward"]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """As many images as MNIST has, but of 8 × 8 pixels: a bright spot somewhere for each class."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "images").mkdir()
    random = np.random.default_rng(0)
    labels = random.integers(10, size=IMAGES["mnist"] + 400).astype(np.uint8)
    pixels = random.integers(100, size=(len(labels), 1, 8, 8), dtype=np.uint8)
    pixels[np.arange(len(labels)), 0, labels // 2 + 1, 2 + 3 * (labels % 2)] = 255
    halves = slice(0, 30_000), slice(30_000, None)
    for number, half in enumerate(halves, start=1):
        path = folder / "images" / f"mnist-{number}.npz"
        np.savez(path, images=pixels[half], labels=labels[half])
    return folder


def test_files_are_read_one_after_the_other(images):
    pixels, labels = load_images("mnist", images)
    assert pixels.shape == (60_400, 1, 8, 8)
    assert (pixels[np.arange(60_400), 0, labels // 2 + 1, 2 + 3 * (labels % 2)] == 255).all()


def test_bags_have_counts_of_all_classes_and_tests_are_apart(images):
    data = load_data("images", SET, 0, images)
    assert data.X.shape == (2048, 64)
    assert data.X.max() == 1
    assert len(data.labels_test) == 400
    bag = data.y["bag"]
    assert (np.bincount(bag) == 16).all()
    counts = np.stack([np.bincount(bag, data.labels == c) for c in range(10)], axis=1)
    np.testing.assert_allclose(data.y["proportion"], counts[bag] / 16)
    other = load_data("images", SET, 1, images)
    assert other.digest != data.digest
    np.testing.assert_array_equal(other.X_test, data.X_test)


def test_a_network_learns(images):
    data = load_data("images", SET, 0, images)
    model = METHODS["network"].make().set_params(max_epochs=6, batch_size=256)
    model.fit(data.X, data.y)
    assert (model.predict(data.X_test) == data.labels_test).mean() > 0.8


def test_scores_of_several_classes_are_means_over_them(images):
    data = load_data("images", SET, 0, images)
    row = run_suite_task(SuiteTask("images", SET, 0, "easyllp"), images)
    model = METHODS["easyllp"].make().fit(data.X, data.y)
    truth, found = data.labels_test, model.predict(data.X_test)
    probabilities = model.predict_proba(data.X_test)
    each = [f1_score(truth == c, found == c) for c in range(10)]
    assert row["f1"] == pytest.approx(np.mean(each))
    each = [roc_auc_score(truth == c, probabilities[:, c]) for c in range(10)]
    assert row["auc"] == pytest.approx(np.mean(each))


@pytest.mark.parametrize("method", [*NETWORKS, "network-counts", "labels-network"])
def test_every_network_trains(method, images):
    data = load_data("images", SET, 0, images)
    model = METHODS[method].make().set_params(max_epochs=1)
    rows = slice(0, 256)
    model.fit(data.X[rows], (data.labels if METHODS[method].sees_labels else data.y)[rows])
    assert model.predict_proba(data.X_test).shape == (400, 10)
    counts = dict.fromkeys(["network", "network-counts"], "likelihood")
    wanted = {"labels-network": "forward", **counts}
    assert model.objective == wanted.get(method, method.removeprefix("network-"))


def test_the_suite_is_what_it_promises():
    suite = SUITES["images"]
    names = [f"{images} {size}" for images in IMAGES for size in IMAGE_SIZES]
    assert suite.names(False) == names
    assert {name.split()[0] for name in suite.names(True)} == set(IMAGES)
    assert set(suite.methods) == {*NETWORKS, "mixed-linear", "labels-network"}
    assert make_suite_tasks("images", names=[SET], methods=["network"])[0].name == SET
    assert {task.name for task in make_suite_tasks("images", kinds=["64"])} == set(names[1::4])


def test_networks_for_images_refuse_tables(folder):
    row = run_suite_task(SuiteTask("tables", "hi low 32", 0, "network"), folder)
    assert row["failed"] == (
        "A network for images takes rows of 64 pixels or more, of a square and in one colour or "
        "three, not rows of the shape (10,)."
    )


@pytest.mark.parametrize(("pixels", "shape"), [(64, (1, 8, 8)), (3072, (3, 32, 32))])
def test_rows_become_images_again(pixels, shape):
    assert ImageNetwork((pixels,), 10).image == shape


def test_what_is_missing_is_named(images):
    with pytest.raises(FileNotFoundError, match=r"cifar10-1\.npz: .* unbag-bench fetch images"):
        load_images("cifar10", images)
    with pytest.raises(ValueError, match="There is no set 'svhn'; there are mnist, fashion"):
        load_images("svhn", images)
