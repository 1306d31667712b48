"""
Standard errors that hold
=========================

A coefficient of a private model differs from the population's for two reasons: other people might
have been in the sample, and other noise might have been drawn. ``inference=True`` has intervals
that cover both.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dpfast import LogisticRegression
from dpfast.plotting import CoefficientDisplay

rng = np.random.default_rng(0)
names = ["age", "dose", "weeks", "weight"]
truth = np.array([1.0, -0.5, 0.25, 0.0])


def sample(n):
    X = rng.uniform(-1.0, 1.0, (n, len(names)))
    return pd.DataFrame(X, columns=names), X @ truth + 0.3 + rng.logistic(size=n) > 0


def fitted(X, y):
    model = LogisticRegression(
        epsilon=1.0,
        delta=1e-6,
        data_norm=2.0,
        classes=[False, True],
        neighboring_relation="add_or_remove_one",
        inference=True,
        solver_options={"column_bound": 1.0},
        random_state=int(rng.integers(2**31)),  # for a page that can be repeated; never release it
    )
    return model.fit(X, y)


model = fitted(*sample(10_000))
print(model.summary())

# %%
# With 10,000 rows the noise adds little: dark is what the interval would be without it.

CoefficientDisplay.from_estimator(model)

# %%
# Do they hold? A hundred samples from the same population, each with its own noise: about five of
# the 95 % intervals should miss the true effect of the dose.

intervals = np.vstack([fitted(*sample(10_000)).conf_int(0.95, ["dose"]) for _ in range(100)])
missed = (intervals[:, 0] > truth[1]) | (intervals[:, 1] < truth[1])

figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
for k, (low, high) in enumerate(intervals):
    ax.plot([low, high], [k, k], color="tab:red" if missed[k] else "tab:blue")
ax.axvline(truth[1], color="black", linestyle=":")
ax.set(xlabel="effect of the dose (log odds)", ylabel="sample", yticks=[])
print(f"{missed.sum()} of {len(missed)} intervals miss the truth")

# %%
# :doc:`/guide/standard_errors` has what is assumed, where a fit refuses, and how often intervals
# held on real tables.
