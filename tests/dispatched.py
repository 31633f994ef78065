"""With scikit-learn's array API dispatch, answers and fitted arrays are where X is.

tests/test_device.py runs this file with SCIPY_ARRAY_API=1, which dispatch needs.
"""

import numpy as np
import pytest
import sklearn
from sklearn.utils._array_api import NamespaceAndDevice, get_namespace_and_device, move_estimator_to
from sklearn.utils.estimator_checks import check_array_api_input, check_array_api_mixed_inputs
from tests.test_device import METHODS, C, T, X, cupy, each, made, t, torch, y

__all__ = ["cupy"]  # a fixture

from slender import load_model, save_model
from slender.export import to_torch

NAMES = np.array(["a", "b", "c", "d", "e"])


@pytest.fixture(autouse=True)
def _dispatch():
    with sklearn.config_context(array_api_dispatch=True):
        yield


@each
@pytest.mark.parametrize("classes", [2, C])
def test_with_dispatch_they_are_where_x_is(name, classes):
    labels = y % classes
    model = made(name).fit(T, torch.from_numpy(labels))
    here = sklearn.base.clone(model).fit(X, labels)
    for part in ("coef_", "intercept_"):
        assert torch.is_tensor(getattr(model, part))
        assert tuple(getattr(model, part).shape) == getattr(here, part).shape
    assert isinstance(model.classes_, np.ndarray)
    moved = sklearn.base.clone(model).fit(T, torch.from_numpy(labels)).to("cpu")
    for method in METHODS:
        if not hasattr(model, method):
            continue
        there = getattr(model, method)(T)
        assert torch.is_tensor(there)
        expected = getattr(moved, method)(X)
        assert str(there.dtype).removeprefix("torch.") == expected.dtype.name
        np.testing.assert_allclose(there.numpy(), expected, rtol=1e-3, atol=1e-4)
    assert torch.is_tensor(model.predict_top_k(T, 2))
    assert isinstance(model.score(T, torch.from_numpy(labels)), float)


def test_strings_stay_here():
    model = made("LogisticClassifier").fit(T, NAMES[y])
    assert model.predict(T).dtype.kind == "U"
    assert torch.is_tensor(model.predict_proba(T))


@each
def test_a_model_moves(name, tmp_path):
    model = made(name).fit(T, t)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded.coef_, np.ndarray)
    assert loaded.device is None
    with pytest.raises(ValueError, match=r"predict\(\) must use the same namespace .*model\.to"):
        loaded.predict(T)
    here = loaded.predict(X)
    assert loaded.to("torch:cpu") is loaded
    assert torch.is_tensor(loaded.intercept_)
    np.testing.assert_array_equal(loaded.predict(T).numpy(), here)
    assert isinstance(loaded.to("cpu").intercept_, np.ndarray)
    np.testing.assert_array_equal(loaded.predict(X), here)


def test_scikit_learn_moves_a_model():
    model = made("LogisticClassifier").fit(X, NAMES[y])
    xp, _, device = get_namespace_and_device(T)
    there = move_estimator_to(model, xp, device)
    assert torch.is_tensor(there.coef_)
    assert (there.predict(T) == model.predict(X)).all()
    xp, _, device = get_namespace_and_device(X)
    assert isinstance(move_estimator_to(there, xp, device).coef_, np.ndarray)
    assert isinstance(model.coef_, np.ndarray)


def test_models_with_tensors_are_exported():
    model = made("LogisticClassifier").fit(T, t)
    layer = to_torch(model)
    with torch.no_grad():
        np.testing.assert_array_equal(layer(T).argmax(1).numpy(), model.predict(T).numpy())


def test_a_model_fitted_by_dispatch_is_a_start():
    model = made("LogisticClassifier", warm_start=True, tol=1e-6).fit(T.double(), t)
    first = model.n_iter_
    assert model.fit(T.double(), t).n_iter_ < first


def test_answers_for_arrays_of_cupy_are_theirs(cupy):
    there, labels = cupy.asarray(X), cupy.asarray(y)
    model = made("LogisticClassifier").fit(there, labels)
    for part in (model.coef_, model.predict(there), model.predict_proba(there)):
        assert isinstance(part, cupy.ndarray)
    np.testing.assert_array_equal(model.predict(there).get(), model.to("cpu").predict(X))


PAIR = NamespaceAndDevice("torch", "cpu"), NamespaceAndDevice("numpy", None)


@each
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("weights", [False, True])
def test_scikit_learns_own_checks_pass(name, weights):
    model = made(name)
    assert model.__sklearn_tags__().array_api_support
    for dtype in ("float32", "float64"):
        check_array_api_input(name, model, "torch", "cpu", dtype, check_sample_weight=weights)
        check_array_api_input(name, model, "numpy", None, dtype, check_sample_weight=weights)
    check_array_api_mixed_inputs(name, model, *PAIR, check_sample_weight=weights)
    check_array_api_mixed_inputs(name, model, *PAIR[::-1], check_sample_weight=weights)
