"""Files of estimators, by joblib and by skops: the same predictions, promise and no rows."""

import json
import pickle
import warnings

import joblib
import numpy as np
import pytest

import dpfast
from dpfast.estimators import __all__ as names

ESTIMATORS = sorted(name for name in names if hasattr(getattr(dpfast, name, None), "fit"))


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(5_000, 3))


@pytest.fixture(params=ESTIMATORS)
def model(request, rows):
    cls = getattr(dpfast, request.param)
    if "classes" in cls().get_params():
        return cls(data_norm=2.0, classes=[0, 1, 2]).fit(rows, np.digitize(rows[:, 0], [-0.5, 0.5]))
    bounds = (0.1, 5.0)
    return cls(data_norm=2.0, target_bounds=bounds).fit(rows, np.clip(np.exp(rows[:, 0]), *bounds))


def check_same(again, model, rows):
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    assert again.privacy_ == model.privacy_
    assert (again.epsilon, again.delta, repr(again)) == (model.epsilon, model.delta, repr(model))


def test_joblib(model, rows, tmp_path):
    path = tmp_path / "m.joblib"
    joblib.dump(model, path)
    check_same(joblib.load(path), model, rows)
    assert path.stat().st_size < 40_000 < rows.nbytes


def test_pickles_of_other_versions_are_questioned(model, rows):
    written = pickle.dumps(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_same(pickle.loads(written), model, rows)
    for state, version in ((model.__getstate__() | {"_dpfast_version": "0.0.1"}, "dpfast 0.0.1"),
                           (dict(vars(model)), "an earlier version")):  # fmt: skip
        again = object.__new__(type(model))
        with pytest.warns(UserWarning, match=f"was pickled by .*{version}.* or fit again"):
            again.__setstate__(state)
        check_same(again, model, rows)


def test_skops(model, rows, tmp_path):
    io = pytest.importorskip("skops.io")
    path = tmp_path / "m.skops"
    io.dump(model, path)
    trusted = io.get_untrusted_types(file=path)
    assert all(name.startswith(("dpfast.", "numpy.")) for name in trusted), trusted
    check_same(io.load(path, trusted=trusted), model, rows)


def test_parameters_that_tools_for_releases_write_down(model):
    """SACRO-ML's report of a target is the JSON of its parameters."""
    written = json.loads(json.dumps(model.get_params()))
    assert (written["epsilon"], written["delta"]) == (model.epsilon, model.delta)
