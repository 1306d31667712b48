"""
What a guarantee means to an attacker
=====================================

An attacker sees the model, knows everything but one record, and guesses what that record was. Two
things can go wrong: a wrong accusation (type I error) and a miss (type II error). The guarantee is
a curve below which no attack can get, however clever.
"""

from dpfast import Budget
from dpfast.plotting import TradeOffDisplay, trade_off

display = TradeOffDisplay(
    {
        "ε = 0.1": Budget(0.1),
        "ε = 1": Budget(1.0),
        "ε = 4": Budget(4.0),
        "µ = 0.24 (Gaussian noise of ε = 1, δ = 1e-6)": Budget(mu=0.2367),
    }
).plot()

# %%
# With ε = 1, an attack that accuses wrongly in 5 % of cases misses at least

print(f"{100 * trade_off(0.05, Budget(1.0)):.0f} % for pure ε = 1")
print(f"{100 * trade_off(0.05, Budget(mu=0.2367)):.0f} % for Gaussian noise with ε = 1, δ = 1e-6")
