"""Budgets, events, the ledger and its accountants, calibration, reports and audits."""

from dpfast.privacy.accountants import ACCOUNTANTS, Accountant
from dpfast.privacy.auditing import (
    AuditResult,
    audit_epsilon,
    audit_mu,
    clopper_pearson,
    gaussian_score,
    l2_laplace_score,
)
from dpfast.privacy.budget import Budget
from dpfast.privacy.calibration import (
    budget_epsilon,
    budget_mu,
    budget_rho,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from dpfast.privacy.calibration_search import smallest_noise
from dpfast.privacy.dp_event import to_dp_event
from dpfast.privacy.events import (
    EVENTS,
    NEIGHBORING_RELATIONS,
    SAMPLINGS,
    Event,
    ExponentialEvent,
    GaussianEvent,
    GDPEvent,
    L2LaplaceEvent,
    LaplaceEvent,
    NoisyMaxEvent,
    QueryEvent,
    SubsampledGaussianEvent,
    SubsampledLaplaceEvent,
    ZCDPEvent,
    event_from_dict,
    records_apart,
)
from dpfast.privacy.ledger import Guarantee, Ledger
from dpfast.privacy.report import PrivacyReport

__all__ = [
    "ACCOUNTANTS",
    "EVENTS",
    "NEIGHBORING_RELATIONS",
    "SAMPLINGS",
    "Accountant",
    "AuditResult",
    "Budget",
    "Event",
    "ExponentialEvent",
    "GDPEvent",
    "GaussianEvent",
    "Guarantee",
    "L2LaplaceEvent",
    "LaplaceEvent",
    "Ledger",
    "NoisyMaxEvent",
    "PrivacyReport",
    "QueryEvent",
    "SubsampledGaussianEvent",
    "SubsampledLaplaceEvent",
    "ZCDPEvent",
    "audit_epsilon",
    "audit_mu",
    "budget_epsilon",
    "budget_mu",
    "budget_rho",
    "clopper_pearson",
    "event_from_dict",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_score",
    "l2_laplace_score",
    "records_apart",
    "smallest_noise",
    "to_dp_event",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
