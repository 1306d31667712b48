"""Events: checked when made, and the same after a trip through JSON."""

import dataclasses
import json
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpfast.privacy import (
    ACCOUNTANTS,
    EVENTS,
    Budget,
    ExponentialEvent,
    GaussianEvent,
    GDPEvent,
    L2LaplaceEvent,
    L2LaplaceObjectiveEvent,
    LaplaceEvent,
    Ledger,
    NoisyMaxEvent,
    ObjectivePerturbationEvent,
    PureSelectionEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
    SubsampledLaplaceEvent,
    ZCDPEvent,
    event_from_dict,
    records_apart,
)
from dpfast.privacy.accountants import AdditiveAccountant

COMMON = {"neighboring_relation": "replace_one", "where": "gradient"}
QUERY = {"sensitivity": 0.1 + 0.2, "dimension": 3}
SAMPLE = {"batch": 5, "n_samples": 100, "sampling": "fixed-size"}
OBJECTIVE = {"lipschitz": 1.5, "smoothness": 0.25, "ridge": 1.0 / 7.0, "dimension": 3}
FIELDS = {
    GaussianEvent: {**QUERY, "stddev": 1.0 / 3.0},
    L2LaplaceEvent: {**QUERY, "scale": 1.0 / 3.0},
    LaplaceEvent: {**QUERY, "scale": 1.0 / 3.0},
    SubsampledGaussianEvent: {**QUERY, **SAMPLE, "stddev": 1.0 / 3.0},
    SubsampledLaplaceEvent: {**QUERY, **SAMPLE, "scale": 1.0 / 3.0},
    NoisyMaxEvent: {
        "sensitivity": 0.3,
        "scale": 1.0 / 3.0,
        "candidates": 4,
        "noise_kind": "gumbel",
        "monotone": False,
    },
    ExponentialEvent: {"epsilon": 1.0 / 3.0},
    ZCDPEvent: {"rho": 1.0 / 3.0},
    GDPEvent: {"mu": 1.0 / 3.0},
    ObjectivePerturbationEvent: {**OBJECTIVE, "stddev": 1.0 / 3.0, "monotone": True},
    L2LaplaceObjectiveEvent: {**OBJECTIVE, "scale": 1.0 / 3.0},
}
FIELDS[PureSelectionEvent] = {
    "repetitions": "poisson",
    "mean_runs": 10.0 / 3.0,
    "shape": 1.0,
    "epsilon_of_run": 1.0 / 3.0,
}
FIELDS[SelectionEvent] = {
    "repetitions": "negative-binomial",
    "mean_runs": 10.0 / 3.0,
    "shape": 2.0,
    "alternatives": (
        (GaussianEvent(**COMMON, **FIELDS[GaussianEvent], count=2),),
        (ZCDPEvent(**COMMON, rho=0.1), GDPEvent(**COMMON, mu=0.3)),
    ),
}
LAW = ("mean_runs", "shape")
REALS = [
    (kind, name)
    for kind, values in FIELDS.items()
    for name, value in values.items()
    if isinstance(value, float)
]


def test_every_class_of_events_is_tried_here():
    assert set(EVENTS.values()) == set(FIELDS)


@pytest.fixture(params=FIELDS, ids=lambda kind: kind.mechanism)
def kind(request):
    return request.param


def test_json_round_trip_is_exact(kind):
    event = kind(**COMMON, **FIELDS[kind], count=7)
    assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event
    shown = dict(FIELDS[kind])
    if kind is SelectionEvent:
        shown["alternatives"] = "2 x gaussian or 1 x zcdp + 1 x gdp"
    assert event.describe() == shown


def test_records_apart():
    assert records_apart("replace_one") == 2
    assert records_apart("add_or_remove_one") == 1
    with pytest.raises(ValueError, match="neighboring_relation must be one of"):
        records_apart("swap")


def test_privacy_parameters():
    gaussian = GaussianEvent(**COMMON, sensitivity=2.0, dimension=3, stddev=8.0)
    assert (gaussian.mu, gaussian.noise_multiplier, gaussian.noise) == (0.25, 4.0, 8.0)
    laplace = L2LaplaceEvent(**COMMON, sensitivity=2.0, dimension=3, scale=8.0)
    assert (laplace.epsilon, laplace.noise) == (0.25, 8.0)
    noisy_max = NoisyMaxEvent(**COMMON, **FIELDS[NoisyMaxEvent])
    assert noisy_max.epsilon == pytest.approx(1.8)
    assert dataclasses.replace(noisy_max, monotone=True).epsilon == pytest.approx(0.9)


@pytest.mark.parametrize("whole", [1e-12, 0.1, 1.0, 1.0000001, 30.0, 1000.0])
def test_amplification_by_sampling(whole):
    event = SubsampledLaplaceEvent(**COMMON, **SAMPLE, sensitivity=whole, scale=1.0, dimension=1)
    with mpmath.workdps(50):
        exact = mpmath.log(1 + mpmath.mpf(5) / 100 * mpmath.expm1(whole))
        assert abs(event.epsilon / exact - 1) < 1e-14
    assert event.sampling_rate == 0.05


@pytest.mark.parametrize("kind", [SubsampledGaussianEvent, SubsampledLaplaceEvent])
def test_a_sampler_goes_with_its_relation_only(kind):
    fields = {**COMMON, **FIELDS[kind]}
    with pytest.raises(ValueError, match=r"sampling='poisson' must go with .*'add_or_remove_one'"):
        kind(**{**fields, "sampling": "poisson"})
    with pytest.raises(ValueError, match=r"sampling='fixed-size' must go with .*'replace_one'"):
        kind(**{**fields, "neighboring_relation": "add_or_remove_one"})
    with pytest.raises(ValueError, match="batch"):
        kind(**{**fields, "batch": 101})


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, True, "1", None])
@pytest.mark.parametrize(("kind", "name"), REALS)
def test_bad_reals(kind, name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        kind(**COMMON, **{**FIELDS[kind], name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("count", 0), ("count", True), ("neighboring_relation", "substitute"), ("where", 3)],
)
def test_bad_fields(kind, name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        kind(**{**COMMON, **FIELDS[kind], name: value})


@pytest.mark.parametrize("value", [0, 1.5])
def test_bad_dimension(value):
    with pytest.raises((TypeError, ValueError), match="dimension"):
        GaussianEvent(**{**COMMON, **FIELDS[GaussianEvent], "dimension": value})


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "no_noise"},
        {"mechanism": None},
        {"surprise": 1},
        {"stddev": -1.0},
        {"count": 0},
    ],
)
def test_a_damaged_record_is_refused(change):
    record = GaussianEvent(**COMMON, **QUERY, stddev=1.0).to_dict()
    with pytest.raises((TypeError, ValueError)):
        event_from_dict({**record, **change})


@pytest.mark.parametrize("name", ["mechanism", "sensitivity", "count"])
def test_an_incomplete_record_is_refused(name):
    record = GaussianEvent(**COMMON, **QUERY, stddev=1.0).to_dict()
    del record[name]
    with pytest.raises(ValueError):
        event_from_dict(record)


def test_not_a_record():
    with pytest.raises(TypeError, match="mapping"):
        event_from_dict([1, 2])


INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
FLOATS = (np.float16, np.float32, np.float64, np.longdouble)


@given(data=st.data())
def test_every_number_becomes_one_of_python(data):
    """So that no sum, product or comparison of an accountant has the range of a NumPy type."""
    kind = data.draw(st.sampled_from(sorted(FIELDS, key=lambda kind: kind.mechanism)), "kind")
    values = {**FIELDS[kind], "count": 100}
    given = dict(values)
    for name, value in values.items():
        if isinstance(value, bool | str | tuple):
            continue
        scalar = data.draw(st.sampled_from(INTEGERS if isinstance(value, int) else FLOATS), name)
        given[name] = scalar(value)
        values[name] = given[name].item() if isinstance(value, int) else float(given[name])
    event, expected = kind(**COMMON, **given), kind(**COMMON, **values)
    assert event == expected
    assert json.loads(json.dumps(event.to_dict())) == json.loads(json.dumps(expected.to_dict()))
    for field in dataclasses.fields(kind):
        assert type(getattr(event, field.name)) in (int, float, bool, str, tuple), field.name


@pytest.mark.parametrize("count", [scalar(64) for scalar in INTEGERS])
def test_counts_of_numpy_do_not_wrap_round(count):
    """128 events of 64 releases each: in eight bits they add up to 0."""
    ledger = Ledger(Budget(rho=1.0))
    event = ZCDPEvent(**COMMON, rho=2.0**-13, count=count)
    ledger.spend_all([event] * 127)
    ledger.spend(event)
    assert ledger.guarantee().rho == 1.0
    assert not ledger.can_afford(event)


EXTREMES = [5e-324, 1e-308, 1e-200, 1e-100, 1e-10, 1.0, 1e10, 1e100, 1e200, 1e308]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@given(data=st.data())
@settings(max_examples=300)
def test_no_event_is_free_however_extreme_its_numbers(data):
    """Ratios and squares that underflow must not add up to nothing; none ends in another error."""
    kind = data.draw(st.sampled_from(sorted(FIELDS, key=lambda kind: kind.mechanism)), "kind")
    names = [n for n, v in FIELDS[kind].items() if isinstance(v, float) and n not in LAW]
    values = {name: data.draw(st.sampled_from(EXTREMES), name) for name in names}
    event = kind(**COMMON, **{**FIELDS[kind], **values})
    for accountant in ACCOUNTANTS.values():
        if not accountant.automatic or not accountant.supports(event):
            continue
        assert accountant.epsilon([event], 0.0) > 0.0
        for delta in (1e-6, 1e-300):
            epsilon = accountant.epsilon([event], delta)
            # The delta may be all there is to pay.
            assert epsilon > 0.0 or (epsilon == 0.0 and accountant.delta([event], 0.0) <= delta)
        if isinstance(accountant, AdditiveAccountant):
            assert accountant.total([event]) > 0.0
