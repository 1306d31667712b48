"""
One budget for several fits
===========================

Guarantees on the same records add up. A :class:`dpfast.BudgetAccountant` keeps the sum, and refuses
the fit that would pass the limit before it touches the data.
"""

import math

import dpfast
from dpfast.datasets import load_randhie
from dpfast.plotting import BudgetDisplay
from dpfast.preprocessing import BoundedScaler

data = load_randhie()
X = BoundedScaler(list(data.bounds.values())).fit_transform(data.data)
model = dpfast.LogisticRegression(
    epsilon=0.5, delta=1e-7, data_norm=math.sqrt(X.shape[1]), classes=[0, 1], strict=True
)

with dpfast.BudgetAccountant(dpfast.Budget(1.0, 1e-6)) as accountant:
    fits = 0
    try:
        while True:
            model.fit(X, data.target)
            fits += 1
            print(f"after fit {fits}: {100 * accountant.remaining():.0f} % left")
    except dpfast.BudgetExceeded as error:
        print(f"refused: {error}")

# %%
# Gaussian releases add up by squares, so ε = 0.5 fits more often into ε = 1 than twice, also when
# each fit may be chosen by looking at those before it, as here. Where it went:

display = BudgetDisplay.from_ledger(accountant)
