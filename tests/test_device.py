"""Estimators on a device: what they accept, where answers go, what they refuse.

There is a GPU nowhere in these tests: torch on the CPU runs the same code, and a tensor on torch's
device "meta", which holds no numbers, stands for one that NumPy cannot read.
"""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from slender import (
    CompressedMatrix,
    LinearProbe,
    LogisticClassifier,
    SLNDClassifier,
    TraceNormClassifier,
    TraceNormProbe,
    on_workers,
    open_rows,
    places,
)
from slender.data import room, sending
from slender.estimators import validation
from slender.estimators.placing import check_workers
from slender.registry import ESTIMATORS as ALL

torch = pytest.importorskip("torch")

from slender.data.tensors import TensorRows  # noqa: E402
from slender.rows.arithmetic import Halves, Plain  # noqa: E402
from slender.rows.tensor import HALVES  # noqa: E402

rng = np.random.default_rng(0)
n, d, C = 400, 12, 5
y = np.arange(n) % C
X = (rng.standard_normal((n, d)) + rng.standard_normal((C, d))[y]).astype(np.float32)
T, t = torch.from_numpy(X), torch.from_numpy(y)

ESTIMATORS = {
    "LogisticClassifier": LogisticClassifier(C=0.1, random_state=0),
    "LinearProbe": LinearProbe([0.01, 0.1, 1.0], random_state=0),
    "SLNDClassifier": SLNDClassifier(random_state=0),
    "TraceNormClassifier": TraceNormClassifier(fit_intercept=True, random_state=0),
    "TraceNormProbe": TraceNormProbe(3, 1, fit_intercept=True, random_state=0),
}
DISPATCHED = Path(__file__).parent / "dispatched.py"
PROVED = [name for name in ESTIMATORS if name != "SLNDClassifier"]
each = pytest.mark.parametrize("name", ESTIMATORS)
pytestmark = pytest.mark.filterwarnings("ignore:.*may do better")


def made(name, **settings):
    return sklearn.base.clone(ESTIMATORS[name]).set_params(**settings)


def close(a, b):
    """The same model, as far as it is proved; SLND visits the rows in other orders on a device."""
    if hasattr(a, "gap_"):
        assert abs(a.objective_ - b.objective_) <= a.gap_ + b.gap_ + 1e-6 * a.objective_
    else:
        assert np.corrcoef(a.coef_.ravel(), b.coef_.ravel())[0, 1] > 0.99


# -- where it computes -----------------------------------------------------------------------------


def test_the_list_is_complete():
    assert set(ESTIMATORS) == {name for name, of in ALL.items() if of.load().on_device}
    for name, of in ALL.items():
        assert ("device" in of.load()().get_params()) == (name in ESTIMATORS)


@each
def test_tensors_are_fitted_as_arrays_are(name):
    here, there = made(name).fit(X, y), made(name).fit(T, t)
    close(here, there)
    for part in ("coef_", "intercept_", "classes_"):
        assert isinstance(getattr(there, part), np.ndarray)
        assert getattr(there, part).dtype == getattr(here, part).dtype
    np.testing.assert_allclose(
        there.decision_function(T), there.decision_function(X), rtol=1e-4, atol=1e-4
    )


@each
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_tensors_are_fitted_in_the_arithmetic_of_a_gpu(name, kind, monkeypatch):
    """Where there is one, it multiplies halves; here the CPU does the same."""

    def chosen(store, dtype):
        half = str(store.stored).removeprefix("torch.")
        if dtype == np.float64:
            return Plain(dtype)
        return Halves(half) if half in HALVES else Halves("float16", wide=True)

    monkeypatch.setattr("slender.data.tensors.fastest", chosen)
    stored = T.to(getattr(torch, kind))
    here, there = made(name).fit(stored.double().numpy(), y), made(name).fit(stored, t)
    if name == "TraceNormProbe":  # its largest lambda1 is a norm, which rounding changes
        assert abs(here.score(X, y) - there.score(X, y)) < 0.02
    else:
        close(here, there)
    np.testing.assert_array_equal(there.predict(stored), there.predict(stored.double().numpy()))


@each
def test_arrays_are_sent_to_the_device_that_is_named(name, monkeypatch):
    calls = []
    monkeypatch.setattr(sending, "rows_of_tensor", calls.append)
    close(made(name).fit(X, y), made(name, device="torch:cpu").fit(X, y))
    assert not calls


@pytest.mark.parametrize("given", [T, X])
def test_cpu_means_numpy(given, monkeypatch):
    def never(*arguments):
        raise AssertionError("nothing goes to torch")

    monkeypatch.setattr("slender.estimators.validation.rows_of_tensor", never)
    monkeypatch.setattr("slender.estimators.validation.sent", never)
    model = made("LogisticClassifier", device="cpu").fit(given, y)
    np.testing.assert_array_equal(model.coef_, made("LogisticClassifier").fit(X, y).coef_)
    model.predict(given)


@pytest.mark.parametrize(
    "kind", ["float16", "bfloat16", "float64", "int8", "uint8", "int16", "int64", "bool"]
)
def test_tensors_of_every_kind(kind):
    some = torch.from_numpy(np.maximum(X, 0) * 8).to(getattr(torch, kind))
    wide = some.double().numpy()
    for name in ("LogisticClassifier", "TraceNormClassifier"):
        close(made(name).fit(wide, y), made(name).fit(some, y))


@pytest.mark.parametrize("scale", ["l2", "standard"])
def test_scaled_rows(scale):
    spread = X * np.geomspace(0.1, 10, d, dtype=np.float32) + 3.0
    here = made("LinearProbe", scale=scale).fit(spread, y)
    there = made("LinearProbe", scale=scale).fit(torch.from_numpy(spread), y)
    assert here.C_ == there.C_
    close(here, there)
    np.testing.assert_allclose(there.predict_proba(spread), here.predict_proba(spread), atol=0.05)


@pytest.mark.parametrize("validation", [0.2, 3])
def test_a_scorer_of_scikit_learn_chooses(validation):
    settings = {"select": "f1_macro", "validation": validation}
    here, there = (
        made("LinearProbe", **settings).fit(X, y),
        made("LinearProbe", **settings).fit(T, t),
    )
    for one, other in zip(here.path_, there.path_, strict=True):
        assert abs(one["f1_macro"] - other["f1_macro"]) < 0.05


def test_labels_and_weights_may_be_tensors():
    weight = rng.uniform(0.1, 2.0, n)
    here = made("LogisticClassifier", class_weight="balanced").fit(X, y, weight)
    there = made("LogisticClassifier", class_weight="balanced").fit(X, t, torch.from_numpy(weight))
    np.testing.assert_array_equal(here.coef_, there.coef_)
    assert there.score(T, t, torch.from_numpy(weight)) == here.score(X, y, weight)


def test_stores_maps_and_codes_are_sent(tmp_path):
    np.save(tmp_path / "X.npy", X.astype(np.float16))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for k in range(2):
        np.save(tmp_path / f"part-{k}.npy", X[k * 200 : k * 200 + 200])
    codes = rng.integers(0, 256, (n, 3)).astype(np.uint8)
    matrix = CompressedMatrix(codes, rng.standard_normal((3, 256, 4)).astype(np.float32))
    for rows in (mapped, open_rows(str(tmp_path / "part-*.npy")), matrix, X.tolist()):
        here = made("LogisticClassifier").fit(rows, y)
        there = made("LogisticClassifier", device="torch:cpu").fit(rows, y)
        close(here, there)
        assert (there.predict(rows) == here.predict(rows)).mean() > 0.99


class FakeCupy(ModuleType):
    """CuPy as far as we use it, with arrays in the memory of this machine."""

    class ndarray:  # noqa: N801
        def __init__(self, values):
            self.values, self.shape, self.dtype = values, values.shape, values.dtype
            self.__dlpack__, self.__dlpack_device__ = values.__dlpack__, values.__dlpack_device__

        def __len__(self):
            return len(self.values)

        def get(self):
            return self.values

    def asarray(self, values):
        return self.ndarray(np.asarray(values))

    def from_dlpack(self, tensor):
        return self.ndarray(np.from_dlpack(tensor))


@pytest.fixture
def cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy("cupy"))
    return sys.modules["cupy"]


def test_arrays_of_cupy_are_used_in_place(cupy):
    there = cupy.asarray(X)
    assert places.as_tensor(there).data_ptr() == X.ctypes.data
    model = made("LogisticClassifier").fit(there, cupy.asarray(y), cupy.asarray(np.ones(n)))
    close(made("LogisticClassifier").fit(X, y), model)
    assert isinstance(model.predict_proba(there), np.ndarray)


@pytest.mark.parametrize(("spare", "fits"), [(1e3, False), (1e6, True)])
def test_a_fit_keeps_room_for_itself(spare, fits, monkeypatch):
    """1 GB for chunks, and 30 arrays of the size of the weights: 7,200 bytes here."""
    monkeypatch.setattr(room, "free", lambda device: X.nbytes + 1e9 + spare)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        rows = validation.read_rows(made("LogisticClassifier", device="torch:cpu"), X, True, y=y)
    assert rows.store.resident == fits == (not said)


@pytest.mark.parametrize(
    ("curvature", "message"),
    [
        ("identity", "A copy of all rows.*takes .* GB, but .* are free on cpu: use curvature='low"),
        ("diagonal", "A copy of all rows.*takes .* GB, but .* are free on cpu: use curvature='low"),
        ("lowrank", "The product of all rows with 13 columns takes .* GB.*: use a smaller rank"),
    ],
)
@pytest.mark.filterwarnings("ignore:X .* does not fit")
def test_what_must_be_on_the_device_as_a_whole_says_so(curvature, message, monkeypatch):
    monkeypatch.setattr(room, "free", lambda device: X.nbytes / 2)
    with pytest.raises(ValueError, match=message):
        made("SLNDClassifier", curvature=curvature, device="torch:cpu").fit(X, y)


@pytest.mark.parametrize("curvature", ["identity", "diagonal"])
def test_rows_are_copied_once_for_all_passes(curvature, monkeypatch):
    seen = []
    real = TensorRows._all
    monkeypatch.setattr(TensorRows, "_all", lambda self: (seen.append(1), real(self))[1])
    made("SLNDClassifier", curvature=curvature, passes=4).fit(T, y)
    assert len(seen) == 1
    assert TensorRows(T)._all().data_ptr() == T.data_ptr()  # no copy without a need
    assert TensorRows(T.T.contiguous().T)._all().is_contiguous()


def test_what_does_not_fit_is_streamed_and_said(monkeypatch):
    monkeypatch.setattr(room, "free", lambda device: X.nbytes + 1e9)
    model = made("LogisticClassifier", device="torch:cpu")
    with pytest.warns(UserWarning, match=r"X \(.* GB\) does not fit into the .* free on cpu"):
        model.fit(X, y)
    close(made("LogisticClassifier").fit(X, y), model)


# -- answers ---------------------------------------------------------------------------------------


METHODS = ("decision_function", "predict", "predict_proba", "predict_log_proba")


@each
def test_without_dispatch_answers_are_arrays(name):
    model = made(name).fit(T, t)
    for method in METHODS:
        if hasattr(model, method):
            on_tensor, on_array = getattr(model, method)(T), getattr(model, method)(X)
            assert isinstance(on_tensor, np.ndarray)
            assert on_tensor.dtype == on_array.dtype
            np.testing.assert_allclose(on_tensor, on_array, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(model.predict_top_k(T, 3), model.predict_top_k(X, 3))
    assert model.score(T, t) == model.score(X, y)


def test_answers_come_by_blocks(monkeypatch):
    """The n x C scores are not held whole: blocks are as small as the limit says."""
    model = made("LogisticClassifier").fit(T, t)
    expected = model.predict_top_k(T, 3)
    monkeypatch.setattr("slender.data.tensors.CPU_CHUNK_BYTES", 17 * d * 4)
    seen = []
    work = LogisticClassifier._calibrate
    monkeypatch.setattr(
        LogisticClassifier, "_calibrate", lambda self, S: (seen.append(len(S)), work(self, S))[1]
    )
    np.testing.assert_array_equal(model.predict_top_k(T, 3), expected)
    assert max(seen) <= 17
    assert sum(seen) == n


def test_ties_go_to_the_first_class():
    model = made("LogisticClassifier").fit(T, t)
    model.coef_, model.intercept_ = np.zeros_like(model.coef_), np.zeros_like(model.intercept_)
    assert (model.predict(T) == 0).all()
    assert (model.predict_top_k(T, 3) == [0, 1, 2]).all()


def test_dispatch():
    """tests/dispatched.py in a process of its own: SciPy reads the variable when it is imported."""
    pytest.importorskip("sklearn", "1.9")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", DISPATCHED],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "mps", 1])
def test_unknown_devices(device):
    with pytest.raises(ValueError, match=f"device='{device}' must be cpu, torch:cpu, cuda, or"):
        made("LogisticClassifier", device=device).fit(X, y)


def test_a_torch_device_is_a_device():
    close(
        made("LogisticClassifier").fit(X, y),
        made("LogisticClassifier", device=torch.device("cpu")).fit(X, y),
    )


def has_gpus(monkeypatch, *names):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(names))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(names))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda k: names[k])
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)


def test_no_gpu(monkeypatch):
    has_gpus(monkeypatch)
    with pytest.raises(ValueError, match="device='cuda': torch sees no GPU here"):
        made("LogisticClassifier", device="cuda").fit(X, y)


def test_a_gpu_that_is_not_there(monkeypatch):
    has_gpus(monkeypatch, "A", "B")
    with pytest.raises(
        ValueError, match=r"device='cuda:7' does not exist; torch sees cuda:0 \(A\), cuda:1 \(B\)"
    ):
        made("LogisticClassifier", device="cuda:7").fit(X, y)
    assert places.torch_device("cuda") == torch.device("cuda", 0)
    assert places.torch_device("cuda:1") == torch.device("cuda", 1)


def test_no_torch(monkeypatch):
    monkeypatch.setattr("slender.extras.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"device='cuda' needs the package torch: pip install"):
        made("LogisticClassifier", device="cuda").fit(X, y)


def test_large_problems_are_left_to_a_gpu(monkeypatch):
    large = 10**6, 1000, 1000
    has_gpus(monkeypatch)
    assert places.chosen(*large) is None
    has_gpus(monkeypatch, "A")
    assert places.chosen(*large) == "cuda"
    assert places.chosen(1000, 100, 10) is None


def test_torch_is_not_imported_for_small_problems():
    code = (
        "import sys, numpy as np, slender\nfrom slender import places\n"
        "X = np.random.default_rng(0).standard_normal((60, 4))\n"
        "slender.LogisticClassifier().fit(X, np.arange(60) % 3).predict(X)\n"
        "assert places.chosen(1000, 100, 10) is None\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", [name for name in ALL if name not in ESTIMATORS])
def test_who_has_no_form_for_a_gpu_names_who_has(name):
    there = torch.empty((n, d), device="meta")
    model = ALL[name].load()()
    with pytest.raises(
        ValueError, match=f"X is on meta, but {name} does not compute on a GPU"
    ) as e:
        model.fit(there, y)
    assert all(able in str(e.value) for able in ESTIMATORS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(T[:60], t[:60])  # the memory of this machine is another matter
    with pytest.raises(ValueError, match="does not compute on a GPU; these do: LogisticClassifier"):
        model.to("cuda")


def test_gradients_are_refused():
    with pytest.raises(ValueError, match=r"X requires gradients.*: give X\.detach\(\)"):
        made("LogisticClassifier").fit(T.clone().requires_grad_(), y)
    with pytest.raises(ValueError, match=r"give X\.detach\(\)"):
        made("LogisticClassifier").fit(T, y).predict(T.clone().requires_grad_())


def test_tensors_that_are_no_rows():
    model = made("LogisticClassifier")
    for bad, message in (
        (T[0], "Expected 2D array, got 1D tensor"),
        (T[:0], r"Found array with 0 sample\(s\)"),
        (T[:, :0], r"Found array with 0 feature\(s\)"),
        (T.to_sparse(), r"X is a sparse tensor; give X\.to_dense\(\)"),
        (T.to(torch.complex64), "Complex data not supported"),
        (torch.empty((n, d), device="meta"), "X is on meta, but slender computes on CUDA and CPU"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(bad, y)
    model.fit(T, y)
    with pytest.raises(ValueError, match="X has 11 features, but LogisticClassifier is expec"):
        model.predict(T[:, 1:])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_is_found_on_the_device(bad):
    there = T.clone()
    there[333, 7] = bad
    match = r"X contains (NaN|infinity \(inf\)) at row 333, column 7"
    for name in ESTIMATORS:
        with pytest.raises(ValueError, match=match):
            made(name).fit(there, y)
    with pytest.raises(ValueError, match=match):
        made("LogisticClassifier").fit(T, y).predict(there)


def test_sparse_rows_are_refused_on_a_device():
    with pytest.raises(ValueError, match="X is sparse, but cpu computes on dense rows"):
        made("LogisticClassifier", device="torch:cpu").fit(sparse.csr_array(X), y)


@pytest.mark.parametrize("name", ["LinearProbe", "TraceNormProbe"])
def test_validation_is_where_x_is(name):
    held_out = X[:100], y[:100]
    for given in (T[:100], X[:100]):
        for rows in (T, X):
            close(
                made(name, validation=held_out).fit(X, y),
                made(name, validation=(given, t[:100])).fit(rows, t),
            )
    elsewhere = torch.empty((100, d), device="meta"), y[:100]
    with pytest.raises(ValueError, match="X is on cpu but the rows of validation are on meta"):
        made(name, validation=elsewhere).fit(X, y)


@pytest.mark.parametrize("name", PROVED)
def test_ctrl_c_keeps_the_model_so_far(name):
    def interrupt(record, model):
        raise KeyboardInterrupt

    model = made(name, tol=1e-9, callbacks=[interrupt])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(T, t)
    assert any(issubclass(each.category, ConvergenceWarning) for each in said)
    assert np.isfinite(model.coef_).all()


# -- on a cluster ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::RuntimeWarning")
def test_every_worker_of_a_cluster_computes_on_its_device():
    pytest.importorskip("distributed")
    import clusters

    here = made("LogisticClassifier").fit(X, y)
    with clusters.cluster(workers=2) as client:
        shared, labels = clusters.chunked(X, y, 4)
        there = made("LogisticClassifier", device="torch:cpu").fit(shared, labels)
        close(here, there)
        rows = on_workers(shared, device="torch:cpu")
        kinds = rows.fleet.each(kind_of_rows, None, dict.fromkeys(range(rows.fleet.count)))
        assert set(kinds) == {"TensorRows"}
        close(here, made("LogisticClassifier").fit(rows, labels))
        swept = made("SLNDClassifier", rank=6, passes=2).fit(
            rows, labels
        )  # in the order of the CPU
        expected = made("SLNDClassifier", rank=6, passes=2).fit(X, y)
        np.testing.assert_allclose(swept.coef_, expected.coef_, rtol=1e-2, atol=1e-3)
        np.testing.assert_allclose(rows.sqnorms(), (X**2).sum(axis=1), rtol=1e-5)
        np.testing.assert_array_equal(rows.gather(np.array([3, 250])).toarray(), X[[3, 250]])
        with pytest.raises(ValueError, match=r"X is on workers already.*on_workers\(X, device='cu"):
            made("LogisticClassifier", device="cuda").fit(rows, labels)
        assert (there.predict(shared).compute() == here.predict(X)).mean() > 0.99
        assert client.status == "running"


def test_the_place_of_rows_on_workers():
    """device="cpu" says what on_workers(X) does."""
    here, there = SimpleNamespace(place=None), SimpleNamespace(place="cuda")
    assert check_workers(made("LogisticClassifier", device="cpu"), here) is here
    assert check_workers(made("LogisticClassifier", device="cuda"), there) is there
    with pytest.raises(ValueError, match=r"on_workers\(X, device='cpu'\)"):
        check_workers(made("LogisticClassifier", device="cpu"), there)


def kind_of_rows(shard, common, own):
    return type(shard.rows).__name__
