"""The report: readable, exact as JSON, and honest about what it does not cover."""

import json
import pickle

import pytest

from dpfast.privacy import (
    Budget,
    ExponentialEvent,
    GaussianEvent,
    GDPEvent,
    L2LaplaceEvent,
    Ledger,
    NoisyMaxEvent,
    PrivacyReport,
    SubsampledGaussianEvent,
    ZCDPEvent,
)
from dpfast.privacy.report import condensed

COMMON = {"sensitivity": 1.0, "dimension": 3}


def report(relation="replace_one", where="output", pure=False, **settings):
    ledger = Ledger(Budget(1.0, 1e-6))
    make, noise = (L2LaplaceEvent, "scale") if pure else (GaussianEvent, "stddev")
    ledger.spend(make(**COMMON, **{noise: 8.0}, neighboring_relation=relation, where=where))
    return PrivacyReport.from_ledger(ledger, **{"reproducible": False, **settings})


def test_the_numbers_are_the_ledgers():
    ledger = Ledger(Budget(1.0, 1e-6))
    event = GaussianEvent(**COMMON, stddev=8.0, neighboring_relation="replace_one", where="x")
    ledger.spend(event)
    result, guarantee = PrivacyReport.from_ledger(ledger, reproducible=False), ledger.guarantee()
    for name in ("epsilon", "delta", "neighboring_relation", "accountant", "mu", "rho"):
        assert getattr(result, name) == getattr(guarantee, name)
    assert result.events == (event,)
    # Spending on does not change a report that was written.
    ledger.spend(event)
    assert result.events == (event,)


def test_the_words():
    assert "were replaced by any other" in str(report())
    words = str(report("add_or_remove_one"))
    assert (
        "if the contribution of any one record were added to the data or removed from it" in words
    )
    assert "while the number of rows, which is public, stayed as it is" in words
    assert "plus at most 1e-06" in str(report())
    assert "plus at most" not in str(report(pure=True))
    assert "do not release" not in str(report())
    assert "reproducible: do not release" in str(report(reproducible=True))
    leaky = report(notes=("data_norm",))
    assert "apart from what is listed below" in str(leaky)
    assert "not covered by the guarantee: data_norm" in str(leaky)
    # What no guarantee covers is said in every form.
    for text in (str(report()), report()._repr_html_()):
        assert "Not covered: all records of one person together" in text
        assert "the running time" in text


def test_the_table_has_a_row_for_every_event():
    text = str(report(where="output: w"))
    head, row = text.splitlines()[-2:]
    assert head.split() == ["where", "mechanism", "count", "dimension", "sensitivity", "noise"]
    assert row.split() == ["output:", "w", "gaussian", "1", "3", "1", "8"]


PLACE = {"neighboring_relation": "replace_one", "where": "here"}


@pytest.mark.parametrize(
    ("event", "cells"),
    [
        (ZCDPEvent(rho=0.125, **PLACE), ["-", "-", "-", "rho=0.125"]),
        (GDPEvent(mu=0.25, count=2, **PLACE), ["-", "-", "-", "mu=0.25"]),
        (ExponentialEvent(epsilon=0.5, **PLACE), ["-", "-", "-", "epsilon=0.5"]),
        (
            NoisyMaxEvent(
                sensitivity=1.0,
                scale=8.0,
                candidates=4,
                noise_kind="gumbel",
                monotone=False,
                **PLACE,
            ),
            ["-", "1", "8", "candidates=4,", "noise_kind=gumbel,", "monotone=False"],
        ),
        (
            SubsampledGaussianEvent(
                **COMMON, **PLACE, stddev=8.0, batch=5, n_samples=100, sampling="fixed-size"
            ),
            ["3", "1", "8", "batch=5,", "n_samples=100,", "sampling=fixed-size"],
        ),
    ],
    ids=lambda value: getattr(value, "mechanism", None),
)
def test_the_row_of_an_event_shows_what_the_event_has(event, cells):
    made = PrivacyReport(
        epsilon=1.0,
        delta=1e-6,
        neighboring_relation="replace_one",
        events=(event,),
        accountant="zcdp",
    )
    head, row = str(made).splitlines()[-2:]
    assert head.split()[-1] == "details"
    assert row.split() == ["here", event.mechanism, str(event.count), *cells]
    assert f"<td>{' '.join(cells[3:])}</td>" in made._repr_html_()


def test_an_adaptive_run_is_reported_with_its_whole_budget():
    ledger = Ledger(Budget(1.0, 1e-6), adaptive=True)
    ledger.spend(ZCDPEvent(rho=0.001, **PLACE))
    made = PrivacyReport.from_ledger(ledger, reproducible=False)
    assert (made.epsilon, made.delta, made.adaptive) == (1.0, 1e-6, True)
    for shown in (str(made), made._repr_html_()):
        assert "chosen along the way; the guarantee is the whole budget" in shown
    assert "along the way" not in str(report())
    assert PrivacyReport.from_json(made.to_json()) == made
    # Written before there were adaptive ledgers.
    record = json.loads(report().to_json())
    del record["adaptive"]
    assert PrivacyReport.from_json(json.dumps(record)) == report()
    record["adaptive"] = "yes"
    with pytest.raises(TypeError, match="adaptive"):
        PrivacyReport.from_json(json.dumps(record))


def test_a_huge_epsilon_can_be_printed():
    big = PrivacyReport(
        epsilon=1e6,
        delta=0.0,
        neighboring_relation="replace_one",
        events=(),
        accountant="pure",
    )
    assert "factor of at most inf" in str(big)


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [(0.1, "epsilon = 0.1,"), (1.0041, "epsilon = 1.01,"), (123456.0, "epsilon = 1.24e+05,")],
)
def test_printed_numbers_are_rounded_up(epsilon, words):
    text = str(
        PrivacyReport(
            epsilon=epsilon,
            delta=1.001e-6,
            neighboring_relation="replace_one",
            events=(),
            accountant="gdp",
        )
    )
    assert words in text
    assert "delta = 1.01e-06:" in text


def test_equal_accesses_in_a_row_share_one():
    def event(stddev, count, where="step"):
        return GaussianEvent(
            sensitivity=1.0, stddev=stddev, dimension=3, count=count, where=where,
            neighboring_relation="replace_one",
        )  # fmt: skip

    ledger = Ledger(Budget(mu=10.0))
    ledger.spend_all(
        [event(4.0, 1), event(4.0, 2), event(5.0, 1), event(4.0, 1), event(4.0, 1, "x")]
    )
    whole = PrivacyReport.from_ledger(ledger, reproducible=False)
    rows = [line.split()[:3] for line in str(whole).splitlines() if " gaussian " in line]
    assert [(where, count) for where, _, count in rows] == [
        ("step", "3"), ("step", "1"), ("step", "1"), ("x", "1"),
    ]  # fmt: skip
    assert len(whole.events) == 5
    assert condensed(whole.events[:2])[0].count == 3 and whole.events[0].count == 1


def test_html_is_escaped_and_complete():
    html = report(
        where="<script>alert(1)</script>", notes=("<b>",), reproducible=True
    )._repr_html_()
    assert "<script>" not in html and "<b>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<tr>") == 2 and html.count("<td>") == 6
    assert "do not release" in html


def test_json_round_trip():
    original = report(reproducible=True, notes=("bounds",))
    again = PrivacyReport.from_json(original.to_json())
    assert again == original
    record = json.loads(original.to_json())
    assert record["schema"] == "dpfast.privacy_report" and record["version"] == 1
    assert pickle.loads(pickle.dumps(original)) == original


def record(report):
    return json.loads(report.to_json())


PURE = L2LaplaceEvent(**COMMON, scale=8.0, **PLACE)
GAUSSIAN = GaussianEvent(**COMMON, stddev=8.0, **PLACE)
SAMPLED = SubsampledGaussianEvent(
    **COMMON, **PLACE, stddev=8.0, batch=5, n_samples=100, sampling="fixed-size", count=20
)
ACCOUNTS = {
    "pure": (Budget(1.0), [PURE, PURE], "auto", False),
    "gdp": (Budget(2.0, 1e-6), [GAUSSIAN], "auto", False),
    "mu": (Budget(mu=1.0), [GAUSSIAN], "auto", False),
    "rho": (Budget(rho=1.0), [GAUSSIAN, PURE], "auto", False),
    "basic": (Budget(3.0, 1e-6), [GAUSSIAN, PURE], "basic", False),
    "rdp": (Budget(2.0, 1e-6), [SAMPLED, PURE], "rdp", False),
    "adaptive": (Budget(2.0, 1e-6), [GAUSSIAN, PURE], "auto", True),
    "adaptive-gdp": (Budget(2.0, 1e-6), [GAUSSIAN], "gdp", True),
    "adaptive-pure": (Budget(1.0), [PURE], "auto", True),
    "adaptive-rho": (Budget(rho=1.0), [GAUSSIAN], "auto", True),
    "adaptive-mu": (Budget(mu=1.0), [GAUSSIAN], "auto", True),
}


def accounted(name):
    budget, events, accountant, adaptive = ACCOUNTS[name]
    ledger = Ledger(budget, accountant, adaptive)
    ledger.spend_all(events)
    return PrivacyReport.from_ledger(ledger, reproducible=False)


@pytest.mark.parametrize("name", ACCOUNTS)
def test_no_report_is_read_that_promises_more_than_its_events_give(name):
    original = accounted(name)
    assert PrivacyReport.from_json(original.to_json()) == original
    written = record(original)
    for number in ("epsilon", "mu", "rho"):
        if written[number] is None:
            changed = {**written, number: 1e-3}
        else:
            # A smaller limit of an adaptive run is wrong for sure once the events pass it.
            share = 1e-3 if original.adaptive else 0.99
            changed = {**written, number: share * written[number]}
        with pytest.raises(ValueError, match=number):
            PrivacyReport.from_json(json.dumps(changed))
    if original.delta > 0.0:
        for delta in (0.5 * original.delta, 0.0):
            with pytest.raises(ValueError, match="epsilon is stated"):
                PrivacyReport.from_json(json.dumps({**written, "delta": delta}))
    # Promising less, or leaving out what was not asked for, is no lie.
    twice = {"epsilon": 2.0 * original.epsilon}
    if name == "adaptive-pure":
        twice["rho"] = 4.0 * original.rho
    for changed in (twice, {"delta": 1e-3}):
        PrivacyReport.from_json(json.dumps({**written, **changed}))
    grown = [*written["events"], *written["events"] * 200]
    with pytest.raises(ValueError, match=r"add up to|within the stated limit"):
        PrivacyReport.from_json(json.dumps({**written, "events": grown}))


@pytest.mark.parametrize(
    "changes",
    [
        {"neighboring_relation": "add_or_remove_one"},
        {"events": []},
        {"events": {}},
        {"accountant": "pure"},
        {"accountant": "free"},
        {"accountant": None},
        {"adaptive": True, "mu": None},
        {"reproducible": 0},
        {"reproducible": None},
        {"notes": {}},
        {"notes": [1]},
        {"mu": "0"},
        {"rho": -1.0},
        {"epsilon": 10**400},
        {"extra": 1},
    ],
    ids=str,
)
def test_what_else_would_be_a_weaker_statement_is_refused(changes):
    written = record(report())
    with pytest.raises((TypeError, ValueError)):
        PrivacyReport.from_json(json.dumps({**written, **changes}))


def test_events_within_events_within_events_are_no_crash():
    event = record(report())["events"][0]
    for _ in range(300):
        event = {
            "mechanism": "selection", "alternatives": [[event]], "repetitions": "poisson",
            "mean_runs": 2.0, "shape": 1.0, "count": 1, **PLACE,
        }  # fmt: skip
    with pytest.raises(ValueError):
        PrivacyReport.from_json(json.dumps({**record(report()), "events": [event]}))


@pytest.mark.parametrize("text", ["x", "[]", '{"schema": "dpfast.ledger", "version": 1}'])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match=r"dpfast\.privacy_report"):
        PrivacyReport.from_json(text)


def test_an_empty_ledger_has_nothing_to_report():
    with pytest.raises(ValueError, match="no events"):
        PrivacyReport.from_ledger(Ledger(Budget(1.0)), reproducible=False)


def test_notes_are_a_sequence():
    with pytest.raises(TypeError, match="notes"):
        report(notes="data_norm")


def test_a_delta_that_samplers_use_up_is_not_read():
    ledger = Ledger(Budget(1.0, 1e-30))
    ledger.spend(
        SubsampledGaussianEvent(
            sensitivity=1.0, stddev=1e3, dimension=3, batch=10, n_samples=10_000,
            sampling="poisson", neighboring_relation="add_or_remove_one", where="step",
        )
    )  # fmt: skip
    text = PrivacyReport.from_ledger(ledger, reproducible=False).to_json()
    assert PrivacyReport.from_json(text).delta == 1e-30
    record = json.loads(text)
    record["delta"] = 1e-60
    with pytest.raises(ValueError, match=r"no room for the 1\.24e-60"):
        PrivacyReport.from_json(json.dumps({**record, "epsilon": 1e3}))
