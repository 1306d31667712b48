"""Events: checked when made, and the same after a trip through JSON."""

import json
import math

import pytest

from dpfast.privacy import EVENTS, GaussianEvent, L2LaplaceEvent, event_from_dict

COMMON = {
    "sensitivity": 0.1 + 0.2,
    "dimension": 3,
    "neighboring_relation": "replace_one",
    "where": "gradient",
}
NOISE = {GaussianEvent: "stddev", L2LaplaceEvent: "scale"}


def test_every_class_of_events_is_tried_here():
    assert set(EVENTS.values()) == set(NOISE)


@pytest.fixture(params=NOISE, ids=lambda kind: kind.mechanism)
def kind(request):
    return request.param


def test_json_round_trip_is_exact(kind):
    event = kind(**COMMON, **{NOISE[kind]: 1.0 / 3.0}, count=7)
    assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event


def test_privacy_parameters():
    gaussian = GaussianEvent(**{**COMMON, "sensitivity": 2.0}, stddev=8.0)
    assert (gaussian.mu, gaussian.noise_multiplier, gaussian.noise) == (0.25, 4.0, 8.0)
    laplace = L2LaplaceEvent(**{**COMMON, "sensitivity": 2.0}, scale=8.0)
    assert (laplace.epsilon, laplace.noise) == (0.25, 8.0)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, True, "1", None])
@pytest.mark.parametrize("name", ["sensitivity", "noise"])
def test_bad_reals(kind, name, value):
    name = NOISE[kind] if name == "noise" else name
    with pytest.raises((TypeError, ValueError), match=name):
        kind(**{**COMMON, NOISE[kind]: 1.0, name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dimension", 0),
        ("dimension", 1.5),
        ("count", 0),
        ("count", True),
        ("neighboring_relation", "substitute"),
        ("where", 3),
    ],
)
def test_bad_fields(kind, name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        kind(**{**COMMON, NOISE[kind]: 1.0, name: value})


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
    record = GaussianEvent(**COMMON, stddev=1.0).to_dict()
    with pytest.raises((TypeError, ValueError)):
        event_from_dict({**record, **change})


@pytest.mark.parametrize("name", ["mechanism", "sensitivity", "count"])
def test_an_incomplete_record_is_refused(name):
    record = GaussianEvent(**COMMON, stddev=1.0).to_dict()
    del record[name]
    with pytest.raises(ValueError):
        event_from_dict(record)


def test_not_a_record():
    with pytest.raises(TypeError, match="mapping"):
        event_from_dict([1, 2])
