"""Accountants: what a sequence of events costs. A table name -> accountant.

An accountant for a new class of events is one line in its table of prices; a new accountant is one
file and one line here. "auto" in a ledger means the smallest epsilon among those that support all
the events.
"""

from dpfast.privacy.accountants._contract import Accountant, AdditiveAccountant
from dpfast.privacy.accountants.basic import BasicAccountant
from dpfast.privacy.accountants.gdp import GaussianAccountant
from dpfast.privacy.accountants.optimal import OptimalAccountant
from dpfast.privacy.accountants.pure import PureAccountant
from dpfast.privacy.accountants.rdp import RDPAccountant
from dpfast.privacy.accountants.zcdp import ZCDPAccountant

ACCOUNTANTS: dict[str, Accountant] = {
    accountant.name: accountant
    for accountant in (
        PureAccountant(),
        GaussianAccountant(),
        ZCDPAccountant(),
        BasicAccountant(),
        OptimalAccountant(),
        RDPAccountant(),
    )
}

__all__ = ["ACCOUNTANTS", "Accountant", "AdditiveAccountant"]
