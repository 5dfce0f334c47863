"""Model files: the same model back, whole files only, and no foreign code."""

import errno
import io
import json
import os
import pickle
import re
import signal
import sys
import zipfile
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
import sklearn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.fixes import parse_version

from child_process import run_in_child
from estimator_checks import all_estimators
from forged_files import dict_node, forge, forged_skops, node, text_node, tuple_node
from unbag import (
    BagKFold,
    LLPClassifier,
    _files,
)
from unbag._optional import install_command
from unbag.datasets import make_gaussian_bags
from unbag.tables import files, persistence
from unbag.tables.features import DatetimeFeatures, make_features
from unbag.tables.mixed_features import MixedFeatures
from unbag.tables.persistence import UntrustedTypesError, describe_model, load_model, save_model
from unbag.terms.kernel import KernelTerm

sio = pytest.importorskip("skops.io")

KERNELS = "unbag.paper.kernels"
BINARY = make_gaussian_bags(n_bags=12, bag_size=10, n_features=3, random_state=0)
THREE = make_gaussian_bags(n_bags=12, bag_size=10, n_classes=3, random_state=0)
SMALL = LLPClassifier(kernel=None).fit(BINARY.X, BINARY.y)
OTHER = LLPClassifier(kernel=None).fit(2 * BINARY.X, BINARY.y)
on_posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class Doubler(TransformerMixin, BaseEstimator):
    """A transformer of the user's own."""

    def fit(self, X, y=None):  # noqa: ARG002
        self.factor_ = 2.0
        return self

    def transform(self, X):
        return self.factor_ * X


def outputs(model, X):
    methods = ("predict", "predict_proba", "decision_function", "transform")
    return [getattr(model, name)(X) for name in methods if hasattr(model, name)]


def assert_same(one, other, X=BINARY.X):
    for first, second in zip(outputs(one, X), outputs(other, X), strict=True):
        assert first.dtype == second.dtype
        if issparse(first):
            first, second = first.toarray(), second.toarray()
        np.testing.assert_array_equal(first, second)


def as_table(X):
    return pytest.importorskip("pandas").DataFrame(X, columns=list("abc"))


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """The bytes of a model file."""
    return save_model(SMALL, tmp_path_factory.mktemp("intact") / "m.unbag").read_bytes()


class TestRoundTrip:
    @pytest.mark.parametrize(
        "estimator", [e for _, e in all_estimators()], ids=[n for n, _ in all_estimators()]
    )
    def test_every_estimator(self, estimator, tmp_path):
        # our transformers are for tables
        X = BINARY.X if hasattr(estimator, "predict") else as_table(BINARY.X)
        if estimator is DatetimeFeatures:
            X = (1e6 * X).astype("datetime64[s]")
        model = estimator().fit(X, BINARY.y)
        if estimator is MixedFeatures:
            again = load_model(save_model(model, tmp_path / "m.unbag")).model
            assert again.transform(X).equals(model.transform(X))
            return
        assert_same(model, load_model(save_model(model, tmp_path / "m.unbag")).model, X)

    @pytest.mark.parametrize(
        "model",
        [
            LLPClassifier(kernel=None),
            LLPClassifier(),
            make_pipeline(StandardScaler(), LLPClassifier(kernel=None)),
            pytest.param(
                GridSearchCV(
                    LLPClassifier(kernel=None), {"bag_effect": ["auto", 0.0]}, cv=BagKFold(3)
                ),
                marks=pytest.mark.skipif(
                    parse_version(sklearn.__version__) < parse_version("1.7"),
                    reason="older searches hold request objects that skops does not trust",
                ),
            ),
        ],
        ids=["linear", "kernel", "folds", "search"],
    )
    def test_three_classes_and_compositions(self, model, tmp_path):
        model.fit(THREE.X, THREE.y)
        assert_same(model, load_model(save_model(model, tmp_path / "m.unbag")).model, THREE.X)

    def test_table_with_missing_values(self, tmp_path):
        pd = pytest.importorskip("pandas")
        rng = np.random.default_rng(0)
        n = len(BINARY.X)
        table = as_table(BINARY.X).copy()
        table.loc[3, "a"] = np.nan
        table["object"] = pd.Series(rng.choice(["u", "v", None], n), dtype=object)
        table["flag"] = rng.random(n) > 0.5
        table["category"] = pd.Categorical(rng.choice(["x", "y", "z"], n))
        table["text"] = pd.array(rng.choice(["p", "q"], n), dtype="string")
        model = make_pipeline(make_features(), LLPClassifier(kernel=None))
        model.fit(table, BINARY.y)
        assert_same(model, load_model(save_model(model, tmp_path / "m.unbag")).model, table)

    @pytest.mark.parametrize(
        "learner",
        [
            HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=5),
            RandomForestClassifier(2, random_state=0),
        ],
        ids=["boosting", "forest"],
    )
    def test_trees_need_trust(self, learner, tmp_path):
        model = learner.fit(BINARY.X, BINARY.labels)
        path = save_model(model, tmp_path / "m.unbag")
        with pytest.raises(UntrustedTypesError, match="not trusted: sklearn") as caught:
            load_model(path)
        # what scikit-learn 1.6 calls, and later versions do not
        trusted = [*caught.value.types, "_loss.CyHalfBinomialLoss"]
        assert_same(model, load_model(path, trusted=trusted).model)

    def test_sparse_parts(self, tmp_path):
        path = save_model({"matrix": sparse.csr_array(np.eye(3))}, tmp_path / "m.unbag")
        refused = r"scipy\.sparse\._csr\.csr_array"
        with pytest.raises(ValueError, match=refused):
            load_model(path)
        found = load_model(path, trusted=[sparse.csr_array]).model["matrix"]
        np.testing.assert_array_equal(found.toarray(), np.eye(3))

    def test_schema_and_metadata_come_back(self, tmp_path):
        schema = {"columns": [{"name": "größe", "values": None}]}
        metadata = {"author": "Ada", "numbers": [1, 2.5, True]}
        path = save_model(SMALL, str(tmp_path / "m.unbag"), schema=schema, metadata=metadata)
        found, about = load_model(str(path)), describe_model(path)
        assert found.schema == about["schema"] == schema
        assert found.metadata == about["metadata"] == metadata
        assert found.versions == about["versions"]
        assert {"unbag", "numpy", "scipy", "scikit-learn", "skops"} == set(found.versions)
        with pytest.raises(FrozenInstanceError):
            found.model = None

    @pytest.mark.parametrize(
        "bad", [{"a": np.arange(2)}, {"a": float("nan")}, {1: "a"}, {"a": (1, 2)}, [1]]
    )
    @pytest.mark.parametrize("name", ["schema", "metadata"])
    def test_metadata_must_be_json(self, bad, name, tmp_path):
        with pytest.raises(ValueError, match=f"^{name} m"):
            save_model(SMALL, tmp_path / "m.unbag", **{name: bad})
        assert not list(tmp_path.iterdir())

    def test_header_has_a_limit(self, tmp_path):
        with pytest.raises(ValueError, match="schema and metadata take"):
            save_model(SMALL, tmp_path / "m.unbag", metadata={"a": "x" * persistence.MAX_HEADER})

    def test_model_that_could_not_be_loaded_is_not_saved(self, tmp_path):
        model = make_pipeline(FunctionTransformer(lambda X: X), LLPClassifier(kernel=None))
        model.fit(BINARY.X, BINARY.y)
        with pytest.raises(ValueError, match="This Pipeline cannot be saved"):
            save_model(model, tmp_path / "m.unbag")
        with pytest.raises(ValueError, match="cannot be saved"):
            save_model((i for i in range(3)), tmp_path / "m.unbag")
        assert not list(tmp_path.iterdir())

    def test_without_skops(self, tmp_path, monkeypatch):
        path = save_model(SMALL, tmp_path / "m.unbag")
        monkeypatch.setitem(sys.modules, "skops.io", None)
        for call in (lambda: save_model(SMALL, path), lambda: load_model(path)):
            with pytest.raises(ImportError, match=re.escape(install_command("files"))):
                call()
        assert describe_model(path)["format_version"] == 1


class TestWholeOrNotAtAll:
    @pytest.fixture
    def path(self, tmp_path):
        return save_model(OTHER, tmp_path / "m.unbag")

    def assert_untouched(self, path):
        assert list(path.parent.iterdir()) == [path]
        assert_same(load_model(path).model, OTHER)

    @pytest.mark.parametrize("call", ["fsync", "replace"])
    @pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
    def test_failing_calls(self, path, monkeypatch, call, error):
        def fail(*_):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            with pytest.raises(type(error)):
                save_model(SMALL, path)
        self.assert_untouched(path)

    def test_failing_folder_flush_is_no_failure(self, path, monkeypatch):
        real = os.fsync
        calls = []

        def second_fails(handle):
            calls.append(handle)
            if len(calls) == 2:
                raise OSError(errno.EINVAL, "Invalid argument")
            real(handle)

        monkeypatch.setattr(os, "fsync", second_fails)
        save_model(SMALL, path)
        assert_same(load_model(path).model, SMALL)

    @on_posix
    @pytest.mark.parametrize("room", [0, 100, 5_000])
    def test_full_disk(self, path, room):
        import resource

        old = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, old[1]))
        try:
            with pytest.raises(OSError, match="could not be saved, and nothing was changed: File"):
                save_model(SMALL, path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, old)
        self.assert_untouched(path)

    def test_read_only_folder(self, path, monkeypatch):
        folder = path.parent
        if os.name == "posix" and os.geteuid() == 0:  # root may write anywhere

            def refuse(file, *args, **kwargs):
                if file.parent == folder:
                    raise PermissionError(errno.EACCES, "Permission denied")
                return opened(file, *args, **kwargs)

            opened = Path.open

            monkeypatch.setattr(Path, "open", refuse)
        else:
            folder.chmod(0o500)
        try:
            with pytest.raises(OSError, match="could not be saved, and nothing was changed: Perm"):
                save_model(SMALL, path)
        finally:
            folder.chmod(0o700)
            monkeypatch.undo()
        self.assert_untouched(path)

    @on_posix
    @pytest.mark.parametrize(
        "moment", ["write 0", "write 100", "write 5000", "fsync", "replace", "after"]
    )
    def test_kill_at_every_moment(self, path, moment):
        def child():
            import resource

            def die(*_):
                os.kill(os.getpid(), signal.SIGKILL)

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if moment.startswith("write"):  # the system ends the process in the middle of a write
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
                resource.setrlimit(resource.RLIMIT_FSIZE, (int(moment.split()[1]),) * 2)
            elif moment == "after":
                _files.sync_folder = die
            else:
                setattr(os, moment, die)
            save_model(SMALL, path)

        assert os.WIFSIGNALED(run_in_child(child))
        assert_same(load_model(path).model, SMALL if moment == "after" else OTHER)

    @on_posix
    def test_kill_at_random_moments(self, path):
        for round_ in range(8):
            reader, writer = os.pipe()

            def child(writer=writer):
                while True:
                    for model in (SMALL, OTHER):
                        os.write(writer, b".")
                        save_model(model, path)

            def kill(pid, reader=reader, rounds=round_):
                os.read(reader, 1)
                for _ in range(rounds):
                    os.read(reader, 1)
                os.kill(pid, signal.SIGKILL)

            assert os.WIFSIGNALED(run_in_child(child, kill))
            os.close(reader)
            os.close(writer)
            model = load_model(path).model
            assert_same(model, SMALL if np.array_equal(model.coef_, SMALL.coef_) else OTHER)

    @on_posix
    def test_links_and_rights_stay(self, path):
        path.chmod(0o640)
        link = path.with_name("latest.unbag")
        link.symlink_to(path)
        save_model(SMALL, link)
        assert link.is_symlink()
        assert path.stat().st_mode & 0o777 == 0o640
        assert_same(load_model(path).model, SMALL)

    def test_places_that_are_none(self, tmp_path):
        with pytest.raises(OSError, match="is a folder"):
            save_model(SMALL, tmp_path)
        with pytest.raises(OSError, match=r"the folder of .* does not exist"):
            save_model(SMALL, tmp_path / "nowhere" / "m.unbag")


class TestForeignAndDamagedFiles:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "is empty"),
            (b"bag,proportion\n1,0.5\n", "is not a model file"),
            (np.random.default_rng(0).bytes(1000), "is not a model file"),
            (pickle.dumps(SMALL), "looks like a pickle"),
            (sio.dumps(SMALL), r"holds no header\.json"),
            (b"PK\x03\x04" + bytes(100), "damaged or cut short"),
        ],
        ids=["empty", "text", "noise", "pickle", "skops", "magic"],
    )
    def test_foreign_files(self, content, message, tmp_path):
        path = tmp_path / "m.unbag"
        path.write_bytes(content)
        for read in (load_model, describe_model):
            with pytest.raises(ValueError, match=message) as caught:
                read(path)
            assert "\n" not in str(caught.value)

    def test_no_file(self, tmp_path):
        for read in (load_model, describe_model):
            with pytest.raises(OSError, match="it is a folder"):
                read(tmp_path)
            with pytest.raises(OSError, match="there is no file"):
                read(tmp_path / "m.unbag")

    def test_cut_short(self, intact, tmp_path):
        path = tmp_path / "m.unbag"
        lengths = {*range(0, 100, 3), *range(len(intact) - 300, len(intact), 3)}
        for length in sorted(lengths | set(range(0, len(intact), 97))):
            path.write_bytes(intact[:length])
            with pytest.raises(ValueError, match=r"m\.unbag"):
                load_model(path)

    @given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255), ends=st.booleans())
    @settings(
        max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    def test_flipped_bytes(self, intact, tmp_path, place, flip, ends):
        edge = 1500  # header and directory, where the structure is
        at = int(place * 2 * edge) - edge if ends else int(place * len(intact))
        content = bytearray(intact)
        content[at] ^= flip
        path = tmp_path / "m.unbag"
        path.write_bytes(content)
        found, message = None, "m.unbag"
        try:
            found = load_model(path).model
        except ValueError as error:
            message = str(error)
        assert "m.unbag" in message
        assert "\n" not in message
        if found is not None:
            assert_same(found, SMALL)

    def test_damage_that_zip_does_not_see(self, tmp_path):
        payload = sio.dumps(SMALL)
        with pytest.raises(ValueError, match="does not match its checksum"):
            load_model(forge(tmp_path / "m.unbag", payload, sha256="0" * 64))

    def test_a_forger_writes_the_checksum(self, tmp_path):
        """What is another model than was saved loads, if the forger wants it to."""
        lie = clone(SMALL).fit(-BINARY.X, BINARY.y)
        found = load_model(forge(tmp_path / "m.unbag", sio.dumps(lie))).model
        assert (found.predict(BINARY.X) != SMALL.predict(BINARY.X)).mean() > 0.5

    def test_kernel_models_keep_rows(self, tmp_path):
        model = LLPClassifier(n_landmarks=10).fit(BINARY.X, BINARY.y)
        found = load_model(save_model(model, tmp_path / "m.unbag")).model
        kept = next(t for t in found.function_.terms if isinstance(t, KernelTerm))
        (numbers,) = kept.numbers
        rows = kept.landmarks * numbers.scales + numbers.means
        distance = np.abs(rows[:, None] - BINARY.X[None]).max(axis=2)
        assert distance.min(axis=1).max() < 1e-9

    def test_newer_format(self, tmp_path):
        path = forge(tmp_path / "m.unbag", b"?", format_version=7)
        for read in (load_model, describe_model):
            with pytest.raises(ValueError, match=r"version 7 .* up to 1: update unbag"):
                read(path)

    @pytest.mark.parametrize(
        "changes",
        [
            {"format": "other"},
            {"format_version": True},
            {"format_version": 0},
            {"versions": None},
            {"sha256": 3},
            {"schema": []},
            {"metadata": None},
        ],
    )
    def test_odd_headers(self, changes, tmp_path):
        with pytest.raises(ValueError, match=r"m\.unbag"):
            describe_model(forge(tmp_path / "m.unbag", b"?", **changes))

    @pytest.mark.parametrize("header", ["[" * 400_000, f'{{"format": {"9" * 5000}}}'])
    def test_headers_that_json_refuses(self, header, tmp_path):
        with zipfile.ZipFile(tmp_path / "m.unbag", "w") as archive:
            archive.writestr("header.json", header)
        with pytest.raises(ValueError, match="its header does not say so"):
            describe_model(tmp_path / "m.unbag")

    def test_absurd_sizes(self, intact, tmp_path, monkeypatch):
        path = forge(tmp_path / "m.unbag", b"?", metadata={"a": "x" * persistence.MAX_HEADER})
        with pytest.raises(ValueError, match=r"bytes for its header\.json; at most 16,000,000"):
            describe_model(path)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("header.json", json.dumps({"zeros": "0" * 100_000}))
        with pytest.raises(ValueError, match="is not stored as save_model does"):
            describe_model(path)
        path.write_bytes(intact)
        monkeypatch.setattr(persistence, "MAX_PAYLOAD", 1000)
        with pytest.raises(ValueError, match=r"bytes for its model\.skops; at most 1,000"):
            load_model(path)

    def test_bombs_inside_the_model(self, tmp_path, monkeypatch):
        path = tmp_path / "m.unbag"
        bomb = sio.dumps({"a": np.zeros(100_000)}, compression=zipfile.ZIP_DEFLATED)
        with pytest.raises(ValueError, match="claim to be larger than the file"):
            load_model(forge(path, bomb))
        matrix = io.BytesIO()
        sparse.save_npz(matrix, sparse.csr_matrix((1, 100_000)))
        np.savez_compressed(matrix, data=np.zeros(100_000))
        state = node("SparseMatrixNode", "scipy.sparse._base", "spmatrix", type="scipy", file="x")
        monkeypatch.setattr(files, "_UNPACKED", 100_000)
        with pytest.raises(ValueError, match="absurd size"):
            load_model(forge(path, forged_skops(state, x=matrix.getvalue())))


class TestTrust:
    def test_own_types_by_name_or_type(self, tmp_path):
        model = make_pipeline(Doubler(), LLPClassifier(kernel=None)).fit(BINARY.X, BINARY.y)
        path = save_model(model, tmp_path / "m.unbag")
        name = f"{Doubler.__module__}.Doubler"
        message = f"not trusted: {name}. If you know .* trusted=['{name}']."
        with pytest.raises(ValueError, match=re.escape(message).replace(r"\.\*", ".*")):
            load_model(path)
        assert_same(model, load_model(path, trusted=[name]).model)
        assert_same(model, load_model(path, trusted={Doubler}).model)

    @pytest.mark.parametrize("trusted", [True, "unbag", None, [3]])
    def test_trust_is_a_list(self, trusted, tmp_path):
        with pytest.raises(ValueError, match=r"^trusted m"):
            load_model(tmp_path, trusted=trusted)

    def attacks(self, folder):
        """States that would make a folder, if anything in them were called."""
        call = tuple_node(text_node(str(folder)))
        function = node("FunctionNode", "os", "mkdir")
        empty = tuple_node()
        loss = {"__reduce__": {"args": call}, "content": dict_node()}
        partial = {"func": function, "args": call, "kwds": dict_node(), "namespace": dict_node()}
        owner = node("ObjectNode", KERNELS, "Kernel")
        return {
            "constructor": node("ConstructorFromReduceNode", "os", "mkdir", content=call),
            "loss": node("LossNode", "os", "mkdir", **loss),
            "list": node("ListNode", "os", "mkdir", content=[text_node(str(folder))]),
            "type": node("TypeNode", "os", "mkdir"),
            "function": function,
            "partial": node("PartialNode", "functools", "partial", content=partial),
            "caller": node("OperatorFuncNode", "operator", "methodcaller", attrs=call),
            "method": node(
                "MethodNode",
                KERNELS,
                "Kernel",
                content={"func": "block", "obj": owner},
            ),
            "object": node("ObjectNode", "builtins", "eval", content=empty),
            "import": node("ObjectNode", "antigravity", "geohash"),
        }

    def test_the_attack_is_real(self, tmp_path):
        """Without the list, the first of the states does what it says."""
        folder = tmp_path / "made"
        sio.loads(forged_skops(self.attacks(folder)["constructor"]), trusted=["os.mkdir"])
        assert folder.is_dir()

    def test_attacks_are_refused_by_name(self, tmp_path):
        folder = tmp_path / "made"
        for name, state in self.attacks(folder).items():
            path = forge(tmp_path / "m.unbag", forged_skops(state))
            with pytest.raises(ValueError, match="not trusted: ") as caught:
                load_model(path)
            if name == "method":
                assert "unbag.paper.kernels.Kernel.block" in str(caught.value)
            elif name in ("constructor", "loss", "list", "type", "function"):
                assert "os.mkdir" in str(caught.value)
        assert not folder.exists()
        assert "antigravity" not in sys.modules

    @pytest.mark.parametrize(
        "state",
        [
            {},
            {"__loader__": "NoNode", "__module__": "a", "__class__": "b"},
            node("NdArrayNode", "numpy", "ndarray", type="numpy", file="missing.npy"),
            node("ObjectNode", KERNELS, "Kernel", content=tuple_node(text_node("a"))),
            node("JsonNode", "builtins", "str", content="{"),
            node("ListNode", "builtins", "list", content=3),
        ],
    )
    def test_forged_models_that_cannot_be_built(self, state, tmp_path):
        path = forge(tmp_path / "m.unbag", forged_skops(state))
        with pytest.raises(ValueError, match=r"written by unbag 0, cannot be built here"):
            load_model(path)

    def test_pickled_arrays_are_not_opened(self, tmp_path):
        class Bomb:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "made"),)

        array = io.BytesIO()
        np.save(array, np.array([Bomb()], dtype=object), allow_pickle=True)
        state = node("NdArrayNode", "numpy", "ndarray", type="numpy", file="x")
        for content in (array.getvalue(), pickle.dumps(Bomb())):
            with pytest.raises(ValueError, match="cannot be built here"):
                load_model(forge(tmp_path / "m.unbag", forged_skops(state, x=content)))
        assert not (tmp_path / "made").exists()
