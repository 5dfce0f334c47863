"""What is not imported before it is needed: of the time of a short call, imports are the most."""

import json
import subprocess
import sys

import pytest

# In the order of what a session may come to: each step has imported what those before it have.
STEPS = """
import json, sys, tempfile
HEAVY = ("dask", "lightgbm", "matplotlib", "numpy", "onnx", "pandas", "polars", "pyarrow", "scipy",
         "sklearn", "skops", "torch")
found = {}

def note(step):
    found[step] = [name for name in HEAVY if name in sys.modules]

import unbag
note("import")
from unbag.cli import main
try:
    main(["--help"])
except SystemExit:
    note("help")
import unbag.cli.fit
from unbag.datasets import make_gaussian_bags
from unbag.tables.persistence import load_model, save_model
data = make_gaussian_bags(random_state=0)
with tempfile.TemporaryDirectory() as folder:
    model = unbag.LLPClassifier(kernel=None).fit(data.X, data.y)
    load_model(save_model(model, f"{folder}/m.unbag"))
note("fit")
print("\\n" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def imported():
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_the_package_alone_imports_nothing(imported):
    assert imported["import"] == []


def test_help_is_answered_without_scikit_learn(imported):
    assert imported["help"] == ["numpy"]


def test_a_fit_that_uses_no_network_imports_no_torch(imported):
    # scikit-learn brings pandas and pyarrow, where they are installed
    assert set(imported["fit"]) <= {"numpy", "pandas", "pyarrow", "scipy", "sklearn", "skops"}
    assert "skops" in imported["fit"]
