"""The JSON Schema documents describe what is written, and nothing looser."""

import copy
import json

import pytest
from privacy.test_events import COMMON, FIELDS, SAMPLE

from dpfast.privacy import (
    Budget,
    BudgetAccountant,
    GDPEvent,
    Ledger,
    PrivacyReport,
    gaussian_mu,
)
from dpfast.privacy.schemas import LEDGER, REPORT

BUDGETS = [Budget(1.0), Budget(1.0, 1e-6), Budget(rho=0.5), Budget(mu=0.5)]
EVENTS = [kind(**{**COMMON, **values}) for kind, values in FIELDS.items()]


def is_a(value, name):
    if name in ("number", "integer"):
        numeric = isinstance(value, int) or (name == "number" and isinstance(value, float))
        return numeric and not isinstance(value, bool)
    kinds = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}
    return isinstance(value, kinds[name])


def valid(value, schema):
    """The part of JSON Schema that the documents use; an unknown keyword is an error."""
    for keyword, rule in schema.items():
        if keyword in ("$schema", "title", "properties", "minimum", "exclusiveMinimum"):
            continue
        if keyword == "type":
            good = any(is_a(value, name) for name in ([rule] if isinstance(rule, str) else rule))
        elif keyword == "const":
            good = value == rule and type(value) is type(rule)
        elif keyword == "enum":
            good = value in rule
        elif keyword == "oneOf":
            good = sum(valid(value, option) for option in rule) == 1
        elif keyword == "items":
            good = all(valid(item, rule) for item in value)
        elif keyword == "required":
            good = set(rule) <= set(value)
        elif keyword == "additionalProperties":
            good = rule is False and set(value) <= set(schema["properties"])
        elif keyword == "exclusiveMaximum":
            good = value is None or value < rule
        else:
            raise AssertionError(f"the keyword {keyword} is not known to this test")
        if not good:
            return False
    if value is not None:
        if "minimum" in schema and not value >= schema["minimum"]:
            return False
        if "exclusiveMinimum" in schema and not value > schema["exclusiveMinimum"]:
            return False
    return all(
        valid(value[name], rule)
        for name, rule in schema.get("properties", {}).items()
        if name in value
    )


def check(record, schema):
    """Validate by this test's reading and, where it is installed, by the library jsonschema."""
    try:
        import jsonschema
    except ImportError:
        return valid(record, schema)
    library = jsonschema.Draft202012Validator(schema).is_valid(record)
    assert library == valid(record, schema)
    return library


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_every_ledger_is_valid(budget, adaptive):
    ledger = Ledger(budget, adaptive=adaptive)
    assert check(json.loads(ledger.to_json()), LEDGER)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.mechanism)
def test_every_event_is_valid_in_a_report_and_in_a_ledger(event):
    report = PrivacyReport(
        epsilon=1.0,
        delta=1e-6,
        neighboring_relation=event.neighboring_relation,
        events=(event,),
        accountant="zcdp",
        notes=("data_norm was taken from the data",),
        rho=0.25,
    )
    record = json.loads(report.to_json())
    assert check(record, REPORT)
    ledger = json.loads(Ledger(Budget(1.0, 1e-6)).to_json())
    ledger["events"] = record["events"]
    assert check(ledger, LEDGER)


def record_with_events():
    ledger = Ledger(Budget(20.0, 1e-6))
    ledger.spend(EVENTS[0])
    return json.loads(ledger.to_json())


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("version",), 1),
        (("version",), "2"),
        (("schema",), "dpfast.privacy_report"),
        (("adaptive",), 1),
        (("extra",), 1),
        (("budget", "epsilon"), 0.0),
        (("budget", "delta"), 1.0),
        (("budget", "rho"), 0.5),
        (("events", 0, "count"), 0),
        (("events", 0, "count"), 1.5),
        (("events", 0, "stddev"), 0.0),
        (("events", 0, "stddev"), "1"),
        (("events", 0, "mechanism"), "free"),
        (("events", 0, "neighboring_relation"), "swap"),
        (("events", 0, "batch"), SAMPLE["batch"]),
    ],
    ids=lambda value: str(value),
)
def test_what_differs_is_not_valid(where, value):
    record = record_with_events()
    assert check(record, LEDGER)
    changed = copy.deepcopy(record)
    place = changed
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = value
    assert not check(changed, LEDGER)


@pytest.mark.parametrize("name", ["version", "budget", "accountant", "adaptive", "events"])
def test_what_is_missing_is_missed(name):
    record = record_with_events()
    del record[name]
    assert not check(record, LEDGER)


def test_the_account_of_a_part_is_a_valid_ledger():
    account = BudgetAccountant(Budget(mu=1.0)).disjoint("months", Budget(mu=0.5))["jan"]
    assert check(json.loads(account.to_json()), LEDGER)


@pytest.mark.parametrize("settings", [{}, {"adaptive": False}, {"key": bytes(16)}], ids=str)
@pytest.mark.parametrize("share", [0.1, 1.0], ids=["part of it", "all of it"])
def test_every_account_is_a_valid_ledger(settings, share, tmp_path):
    account = BudgetAccountant(Budget(1.0, 1e-6), tmp_path / "budget.json", **settings)
    event = GDPEvent(mu=share * gaussian_mu(1.0, 1e-6), **COMMON)
    account.charge([event])
    text = (tmp_path / "budget.json").read_text()
    assert check(json.loads(text), LEDGER)
    assert account.to_json() == text.rstrip() and Ledger.from_json(text).events == (event,)
    changed = json.loads(text)
    changed["account"]["charges"] = -1
    assert not check(changed, LEDGER)
