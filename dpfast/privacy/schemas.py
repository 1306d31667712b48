"""JSON Schema documents (draft 2020-12) of what dpfast writes about privacy.

``CERTIFICATE`` is :meth:`dpfast.privacy.Certificate.to_json`, ``LEDGER`` is
:meth:`dpfast.privacy.Ledger.to_json` and the file of a
:class:`~dpfast.privacy.BudgetAccountant`, ``REPORT`` is
:meth:`dpfast.privacy.PrivacyReport.to_json`. They are for other programs, such as a data officer's
check of a released model. Only the file of an account has an "account": how it was begun, and how
often it was charged. dpfast's own readers check more (ranges that depend on each other, that the
events are within the budget, that they add up to no more than a report states, and that
"sha256" is the checksum of the rest: SHA-256 of the object without it, written by Python's ``json``
with sorted keys and no spaces).
"""

from dataclasses import fields
from typing import Any

from dpfast.privacy.events import EVENTS, RELATIONS, Event

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_TYPES: dict[Any, dict[str, Any]] = {
    float: {"type": "number", "exclusiveMinimum": 0},
    int: {"type": "integer", "minimum": 1},
    str: {"type": "string"},
    bool: {"type": "boolean"},
}
_RELATION = {"enum": list(RELATIONS)}
_DELTA = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with just these fields."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _event(kind: type[Event]) -> dict[str, Any]:
    properties = {field.name: _TYPES.get(field.type, {}) for field in fields(kind)}
    properties["neighboring_relation"] = _RELATION
    return _object({"mechanism": {"const": kind.mechanism}, **properties})


_EVENTS = {"type": "array", "items": {"oneOf": [_event(kind) for kind in EVENTS.values()]}}
_BUDGET = {
    "oneOf": [
        _object({unit: {"type": "number", "exclusiveMinimum": 0}, "delta": _DELTA})
        for unit in ("epsilon", "rho", "mu")
    ]
}
_OPTIONAL = {"type": ["number", "null"], "minimum": 0}
_ACCOUNT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "charges": {"type": "integer", "minimum": 0},
        "accountant": {"type": "string"},
        "adaptive": {"type": "boolean"},
        "neighboring_relation": _RELATION,
        "plan": _EVENTS,
        "hmac": {"type": "string"},
    },
    "required": ["id", "charges", "accountant", "adaptive"],
    "additionalProperties": False,
}

LEDGER: dict[str, Any] = {
    "$schema": _DRAFT,
    "title": "dpfast ledger, and the file of a BudgetAccountant",
    **_object(
        {
            "schema": {"const": "dpfast.ledger"},
            "version": {"const": 2},
            "budget": _BUDGET,
            "accountant": {"type": "string"},
            "adaptive": {"type": "boolean"},
            "events": _EVENTS,
            "sha256": {"type": "string"},
        }
    ),
}
LEDGER["properties"]["account"] = _ACCOUNT

REPORT: dict[str, Any] = {
    "$schema": _DRAFT,
    "title": "dpfast privacy report",
    **_object(
        {
            "schema": {"const": "dpfast.privacy_report"},
            "version": {"const": 1},
            "epsilon": {"type": "number", "minimum": 0},
            "delta": _DELTA,
            "neighboring_relation": _RELATION,
            "events": _EVENTS,
            "accountant": {"type": "string"},
            "reproducible": {"type": "boolean"},
            "notes": {"type": "array", "items": {"type": "string"}},
            "mu": _OPTIONAL,
            "rho": _OPTIONAL,
            "adaptive": {"type": "boolean"},
        }
    ),
}
REPORT["properties"]["prior"] = {"type": "string"}

_SHARE = {"type": "number", "minimum": 0}
_SHARES = {"type": "object"}
_TEXTS = {"type": "array", "items": {"type": "string"}}

CERTIFICATE: dict[str, Any] = {
    "$schema": _DRAFT,
    "title": "dpfast certificate: a privacy report with what follows from it",
    **_object(
        {
            "schema": {"const": "dpfast.certificate"},
            "version": {"const": 1},
            "dpfast_version": {"type": "string"},
            "subject": {"type": "object"},
            "releasable": {"type": "boolean"},
            "objections": _TEXTS,
            "guarantee": _object(
                {
                    "epsilon": {"type": "number", "minimum": 0},
                    "delta": _DELTA,
                    "mu": _OPTIONAL,
                    "rho": _OPTIONAL,
                    "neighboring_relation": _RELATION,
                    "unit": {"enum": ["row", "group"]},
                }
            ),
            "attacks": _object(
                {
                    "membership_advantage": _SHARE,
                    "true_alarms_at_false_alarms": _SHARES,
                    "belief_after_suspicion": _SHARES,
                    "reconstruction_of_what_is_guessed": _SHARES,
                }
            ),
            "not_covered": _TEXTS,
            "nist_sp_800_226": {
                "type": "array",
                "items": _object({"question": {"type": "string"}, "answer": {"type": "string"}}),
            },
            "privacy": {name: value for name, value in REPORT.items() if name[0] != "$"},
        }
    ),
}
