"""What a released result promises, for whoever has to decide about its release."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpfast._version import __version__
from dpfast.privacy.attacks import advantage, belief, found_at, reconstruction
from dpfast.privacy.events import relation_of
from dpfast.privacy.report import PrivacyReport, condensed

_SCHEMA, _VERSION = "dpfast.certificate", 1
_PRIORS = (0.01, 0.1, 0.5)
_FALSE_ALARMS = (0.001, 0.01, 0.05)
_GUESSES = (0.0001, 0.01, 0.1)

_NEIGHBORS = {
    "replace_one": "one {unit}'s data replaced by any other; the number of {unit}s is public",
    "add_or_remove_one": "one {unit} present or absent; the number of {unit}s is treated as public",
}
_NEIGHBORS |= {relation_of(each, "group"): text for each, text in _NEIGHBORS.items()}
_UNITS = {"row": "row of the table", "group": "person"}
_NOUNS = {"row": "record", "group": "person"}

NOT_COVERED = (
    "What was taken for public: the declared ranges, categories and classes, the parameters, the "
    "number of records. If they were read off the data, what they reveal is not covered.",
    "Other results from the same data: their guarantees add up with this one.",
    "The running time and memory of the fit, messages and errors about the data, test scores, and "
    "whatever was computed outside dpfast, such as the choice of columns.",
    "Facts about the population: a model may say something true about a person who is not in the "
    "data.",
    "Who may see the raw data, how they were collected, and the machine that held them.",
)
"""What no guarantee of this kind covers."""


@dataclass(frozen=True)
class Certificate:
    """A privacy report and its consequences, in words and numbers.

    It is computed from the report's ledger alone and signs nothing. To know that the ledger is the
    true one, you must trust or check the process that made it.

    Parameters
    ----------
    report : PrivacyReport
    subject : mapping, optional
        Description of the release, in your own words and numbers.

    Raises
    ------
    TypeError
        If the report is something else, such as a model.

    Examples
    --------
    >>> from dpfast.privacy import Budget, Certificate, GaussianEvent, Ledger, PrivacyReport
    >>> ledger = Ledger(Budget(1.0, 1e-6))
    >>> ledger.spend(GaussianEvent(sensitivity=1.0, stddev=5.0, dimension=3,
    ...                            neighboring_relation="replace_one", where="output"))
    >>> certificate = Certificate(PrivacyReport.from_ledger(ledger, reproducible=False))
    >>> certificate.releasable
    True
    >>> certificate.attacks()["membership_advantage"] < 0.08
    True
    """

    report: PrivacyReport
    subject: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.report, PrivacyReport):
            raise TypeError(
                f"report must be a PrivacyReport; got {type(self.report).__name__}. That of a "
                "fitted model is its attribute privacy_."
            )

    @property
    def unit(self) -> str:
        """Whose data the guarantee is about: a row of the table, or a person."""
        return _UNITS[self.report.unit]

    @property
    def releasable(self) -> bool:
        """Whether nothing in the report itself speaks against a release."""
        return not self.objections()

    def objections(self) -> list[str]:
        """What speaks against a release, found in the report."""
        found = []
        if self.report.reproducible:
            found.append(
                "The noise came from a fixed random_state: whoever knows it can take it off."
            )
        found += [
            f"Taken from the data, and not covered by the guarantee: {note}."
            for note in self.report.notes
        ]
        return found

    def attacks(self) -> dict[str, Any]:
        """Upper bounds of what any attacker can do, who may know all other records."""
        report = self.report
        return {
            "membership_advantage": advantage(report),
            "true_alarms_at_false_alarms": {
                f"{rate:g}": found_at(report, rate) for rate in _FALSE_ALARMS
            },
            "belief_after_suspicion": {f"{p:g}": belief(report, p) for p in _PRIORS},
            "reconstruction_of_what_is_guessed": {
                f"{guess:g}": reconstruction(report, guess) for guess in _GUESSES
            },
        }

    def questions(self) -> list[tuple[str, str]]:
        """Questions that an evaluation by NIST SP 800-226 asks, and what the ledger answers."""
        report = self.report
        return [
            *_on_the_guarantee(report),
            *_on_the_accesses(report),
            *_on_the_implementation(report),
            (
                "Was anything taken from the data outside the guarantee?",
                "; ".join(report.notes) + "." if report.notes else "Nothing that dpfast can know.",
            ),
            (
                "Is the release useful, and is it fair?",
                "Not answered here: accuracy is measured on data, by whoever may see them, and "
                "noise weighs more on small groups.",
            ),
            (
                "Are the data collected, stored and deleted securely?",
                "Not answered here.",
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain JSON types."""
        report = self.report
        return {
            "schema": _SCHEMA,
            "version": _VERSION,
            "dpfast_version": __version__,
            "subject": dict(self.subject),
            "releasable": self.releasable,
            "objections": self.objections(),
            "guarantee": {
                "epsilon": report.epsilon,
                "delta": report.delta,
                "mu": report.mu,
                "rho": report.rho,
                "neighboring_relation": report.neighboring_relation,
                "unit": report.unit,
            },
            "attacks": self.attacks(),
            "not_covered": list(NOT_COVERED),
            "nist_sp_800_226": [
                {"question": question, "answer": answer} for question, answer in self.questions()
            ],
            "privacy": json.loads(report.to_json()),
        }

    def to_json(self) -> str:
        """The certificate as JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def __str__(self) -> str:
        return "\n\n".join("\n".join([title, *lines]) for title, lines in self.sections())

    def sections(self) -> list[tuple[str, list[str]]]:
        """The certificate as titles with lines of text."""
        report, attacks, noun = self.report, self.attacks(), _NOUNS[self.report.unit]
        sentences = [text for text in str(report).splitlines() if not text.startswith("  ")]
        verdict = (
            ["Nothing in the report speaks against a release."]
            if self.releasable
            else ["Do not release.", *self.objections()]
        )
        subject = [f"{name.replace('_', ' ')}: {value}" for name, value in self.subject.items()]
        but = " (but for delta)" if report.delta > 0.0 else ""
        percent = {
            f"An attacker who guesses whether the data hold a {noun} or its neighbor has an "
            "advantage of at most": attacks["membership_advantage"],
            **{
                f"At a false-alarm rate of {float(rate):.1%} the detection rate is at most": share
                for rate, share in attacks["true_alarms_at_false_alarms"].items()
            },
            **{
                f"A suspicion of {float(prior):.0%} rises{but} to at most": share
                for prior, share in attacks["belief_after_suspicion"].items()
            },
            **{
                f"A value that a blind guess hits once in {1 / float(guess):,.0f} times is "
                "reconstructed with a probability of at most": share
                for guess, share in attacks["reconstruction_of_what_is_guessed"].items()
            },
        }
        ledger = [
            f"{event.count} x {event.mechanism.replace('_', ' ')}: {event.where}"
            for event in condensed(report.events)
        ]
        return [
            ("What is released", [*subject, *verdict]),
            ("The guarantee", sentences[: 3 if report.prior else 2]),
            (
                f"What it leaves to an attacker who knows everything but one {noun}",
                [f"{text} {_percent(share)}." for text, share in percent.items()],
            ),
            ("Accesses to the data", ledger),
            ("Not covered", list(NOT_COVERED)),
            (
                "Questions of NIST SP 800-226",
                [f"{question} {answer}" for question, answer in self.questions()],
            ),
        ]


def _on_the_guarantee(report: PrivacyReport) -> list[tuple[str, str]]:
    """What is promised, to whom, and how strong it is."""
    unit = report.unit
    variants = [f"(epsilon = {report.epsilon:.4g}, delta = {report.delta:.3g})"]
    if report.mu is not None:
        variants.append(f"{report.mu:.4g}-GDP")
    if report.rho is not None:
        variants.append(f"{report.rho:.4g}-zCDP")
    noun = _NOUNS[unit]
    several = "If a person has several rows, k of them are protected with k times epsilon"
    if report.delta > 0.0:
        # Its sum of delta exp(j epsilon) over j < k.
        several += " and with up to k exp((k - 1) epsilon) times delta"
    if unit != "row":
        several = "All rows of a person together are protected"
    return [
        ("Which definition of differential privacy is met?", " and ".join(variants) + "."),
        ("How strong is epsilon?", f"{_strength(report.epsilon)} See the bounds on attacks."),
        (
            "How strong is delta?",
            "It is 0: the bound never fails."
            if report.delta == 0.0
            else f"{report.delta:.3g}: compare it with one over the number of {noun}s, which "
            "must be far larger.",
        ),
        ("What is the unit of privacy?", f"A {_UNITS[unit]}. {several}."),
        (
            "When are two data sets neighbors?",
            f"{report.neighboring_relation}: "
            + _NEIGHBORS[report.neighboring_relation].format(unit=noun)
            + ".",
        ),
    ]


def _on_the_accesses(report: PrivacyReport) -> list[tuple[str, str]]:
    """What was done with the data, and how that adds up."""
    mechanisms = sorted({event.mechanism.replace("_", " ") for event in report.events})
    accesses = sum(event.count for event in report.events)
    return [
        (
            "Which mechanisms were used, and how often?",
            f"{', '.join(mechanisms)}; {accesses:,} access{'es' * (accesses != 1)} to the "
            "data, each on the ledger before it was made.",
        ),
        (
            "How do the losses add up?",
            f"By the accountant {report.accountant!r}; "
            + (
                "accesses were chosen along the way within a privacy filter."
                if report.adaptive
                else "all accesses were fixed before the first."
            ),
        ),
        (
            "Is there one budget over all releases?",
            "This is the loss of one result. Whether an account adds up all results from the "
            "same data is up to whoever releases them.",
        ),
    ]


def _on_the_implementation(report: PrivacyReport) -> list[tuple[str, str]]:
    """What the guarantee takes for granted of the program and whoever runs it."""
    return [
        (
            "Who is trusted?",
            "Central model: whoever ran the fit saw the raw data; nobody else needs to be trusted.",
        ),
        (
            "Was the randomness sound?",
            "No: the seed was fixed. Do not release."
            if report.reproducible
            else "The noise was drawn from a cryptographic generator keyed by the operating "
            "system for this fit alone.",
        ),
        (
            "Are floating-point side channels closed?",
            "Gaussian and Laplace noise is discrete, exact and added on a grid in integers; "
            "rounding errors are charged. dpfast's threat model lists the exceptions.",
        ),
        (
            "Are timing side channels closed?",
            "No. The time of the fit is not protected.",
        ),
    ]


def _percent(share: float) -> str:
    """A probability that promises no more than `share` does."""
    digits = 1 if share >= 0.001 else 3
    factor = 10.0 ** (digits + 2)
    return f"{math.ceil(share * factor * (1.0 - 1e-9)) / factor:.{digits}%}"


def _strength(epsilon: float) -> str:
    """How an epsilon is commonly judged."""
    if epsilon <= 1.0:
        return f"{epsilon:.3g} is a strong promise by common standards."
    if epsilon <= 5.0:
        return f"{epsilon:.3g} is a usual compromise."
    if epsilon <= 20.0:
        return f"{epsilon:.3g} is weak: in the worst case the data of one person may be learned."
    return f"{epsilon:.3g} is hardly a promise."
