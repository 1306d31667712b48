"""The release pack: bounds on attacks, and a certificate that states them."""

import dataclasses
import json

import numpy as np
import pytest
from privacy.test_schemas import valid
from scipy.stats import norm

from dpfast.privacy import (
    Budget,
    Certificate,
    ExponentialEvent,
    GaussianEvent,
    Ledger,
    PrivacyReport,
    ZCDPEvent,
    advantage,
    belief,
    found_at,
    gaussian_delta,
    reconstruction,
)
from dpfast.privacy.schemas import CERTIFICATE

PLACE = {"neighboring_relation": "replace_one", "where": "step"}
GAUSSIAN = GaussianEvent(sensitivity=1.0, stddev=2.5, dimension=1, **PLACE)


def report(*events, budget=None, **settings):
    ledger = Ledger(budget or Budget(9.0, 1e-6))
    for event in events:
        ledger.spend(event)
    return PrivacyReport.from_ledger(ledger, **{"reproducible": False, **settings})


class TestAttacks:
    def test_the_best_attack_on_gaussian_noise_reaches_the_bounds(self):
        mu = 0.4
        found = report(GAUSSIAN)
        assert advantage(found) == pytest.approx(2 * norm.cdf(mu / 2) - 1)
        for rate in (0.001, 0.01, 0.3):
            assert found_at(found, rate) == pytest.approx(norm.cdf(norm.ppf(rate) + mu))
            assert reconstruction(found, rate) == pytest.approx(norm.cdf(norm.ppf(rate) + mu))

    def test_randomized_response_reaches_the_bounds(self):
        epsilon = 1.2
        event = ExponentialEvent(epsilon=epsilon, **PLACE)
        # Of the exponential mechanism more is known than of randomized response.
        found = dataclasses.replace(report(event, budget=Budget(epsilon)), mu=None, rho=None)
        # A bit that is told rightly with probability p: accuse if the bit says so.
        p = np.exp(epsilon) / (1 + np.exp(epsilon))
        assert advantage(found) == pytest.approx(2 * p - 1)
        assert found_at(found, 1 - p) == pytest.approx(p)
        for prior in (0.01, 0.5):
            posterior = prior * p / (prior * p + (1 - prior) * (1 - p))
            assert belief(found, prior) == pytest.approx(posterior)

    def test_a_reconstruction_does_no_better(self):
        """One of 16 candidates, by the nearest noisy answer: against the guess of 1/16."""
        rng = np.random.default_rng(0)
        points = np.linspace(0.0, 1.0, 16)  # any two are 1 apart at most
        truth = rng.integers(0, 16, 200_000)
        noisy = points[truth] + rng.normal(0.0, 2.5, len(truth))
        hit = np.mean(np.abs(noisy[:, None] - points).argmin(axis=1) == truth)
        assert 1 / 16 < hit <= reconstruction(report(GAUSSIAN), 1 / 16)

    def test_zcdp_is_a_bound_between(self):
        found = report(ZCDPEvent(rho=0.08, **PLACE))
        gaussian = 2 * norm.cdf(0.4 / 2) - 1
        assert gaussian < advantage(found) < 2 * gaussian

    def test_ends(self):
        found = report(GAUSSIAN)
        assert belief(found, 0.0) == 0.0 and belief(found, 1.0) == 1.0
        assert reconstruction(found, 1.0) == 1.0
        assert belief(found, 1e-300) < 1e-297
        for function in (belief, found_at, reconstruction):
            with pytest.raises(ValueError, match="must be a real number in"):
                function(found, 1.5)


class TestCertificate:
    def test_json_is_what_the_schema_says(self):
        for made in (
            report(GAUSSIAN),
            report(ZCDPEvent(rho=0.08, **PLACE), reproducible=True, notes=("a note",)),
            report(ExponentialEvent(epsilon=0.5, **PLACE), budget=Budget(0.5)),
        ):
            document = json.loads(Certificate(made, {"file": "m.json"}).to_json())
            assert valid(document, CERTIFICATE)
            assert not valid({**document, "version": 2}, CERTIFICATE)
            again = PrivacyReport.from_json(json.dumps(document["privacy"]))
            assert document["guarantee"]["epsilon"] == again.epsilon

    def test_a_model_is_not_its_report(self):
        with pytest.raises(TypeError, match="its attribute privacy_"):
            Certificate(object())

    def test_what_speaks_against_a_release(self):
        assert Certificate(report(GAUSSIAN)).objections() == []
        fixed = Certificate(report(GAUSSIAN, reproducible=True))
        assert not fixed.releasable
        assert "Do not release." in str(fixed)
        assert "No: the seed was fixed. Do not release." in str(fixed)
        leaky = Certificate(report(GAUSSIAN, notes=("data_norm was taken from the data",)))
        assert "data_norm was taken from the data." in leaky.objections()[0]

    def test_a_prior_is_named(self):
        began = "It began with a prior, which it says nothing about: january.json."
        made = Certificate(report(GAUSSIAN, prior="january.json"))
        assert began in dict(made.sections())["The guarantee"]
        assert "prior" not in str(Certificate(report(GAUSSIAN)))

    def test_words_and_numbers_agree(self):
        made = report(GAUSSIAN, GAUSSIAN)
        certificate = Certificate(made, {"file": "m.json"})
        text = str(certificate)
        for part in ("file: m.json", "2 x gaussian: step", "A row of the table.", "0.5657-GDP"):
            assert part in text
        shares = certificate.attacks()
        assert shares["membership_advantage"] == advantage(made)
        # Percentages never promise more than the numbers.
        assert f"{np.ceil(1000 * advantage(made)) / 10:.1f}%" in text
        answers = dict(certificate.questions())
        assert all(answer.endswith(".") for answer in answers.values())
        how_often = "Which mechanisms were used, and how often?"
        assert "2 accesses" in answers[how_often]
        assert "; 1 access to" in dict(Certificate(report(GAUSSIAN)).questions())[how_often]

    def test_what_delta_adds(self):
        """With a delta, k times epsilon is not all: of Gaussian noise two rows show more."""
        made = report(GAUSSIAN)
        two = gaussian_delta(2.0 * made.epsilon, 2.0 * made.mu)
        assert made.delta < two <= 2.0 * np.exp(made.epsilon) * made.delta
        pure = report(ExponentialEvent(epsilon=0.5, **PLACE), budget=Budget(0.5))
        for each, words in ((made, "times epsilon and with up to k exp"), (pure, "times epsilon.")):
            assert words in dict(Certificate(each).questions())["What is the unit of privacy?"]
        # Nor is the likelihood ratio bounded by epsilon alone.
        assert "A suspicion of 10% rises (but for delta) to" in str(Certificate(made))
        assert "A suspicion of 10% rises to" in str(Certificate(pure))

    @pytest.mark.parametrize(
        ("epsilon", "word"), [(0.5, "strong"), (4.0, "usual"), (12.0, "weak"), (50.0, "hardly")]
    )
    def test_how_strong(self, epsilon, word):
        event = ExponentialEvent(epsilon=epsilon, **PLACE)
        certificate = Certificate(report(event, budget=Budget(epsilon)))
        assert word in dict(certificate.questions())["How strong is epsilon?"]
