"""
Tutorial: who saw a doctor?
===========================

A private model from start to finish, on the RAND Health Insurance Experiment: 20,190 person-years,
nine features, and whether the person saw a doctor that year.
"""

import math

from sklearn.linear_model import LogisticRegression as NonPrivate
from sklearn.model_selection import train_test_split

import dpfast
from dpfast.datasets import load_randhie
from dpfast.plotting import CoefficientDisplay
from dpfast.preprocessing import BoundedScaler

data = load_randhie()
for name, (low, high) in data.bounds.items():
    print(f"{name:8} {low:.0f} to {high:.3g}")

# %%
# The bounds are public
# ---------------------
# They come from the design of the study, not from the table; ``data.DESCR`` gives the reason of
# each. The scaler maps them to [-1, 1], so a row of nine features is at most 3 long. Nothing was
# looked at so far.

X = BoundedScaler(list(data.bounds.values())).fit_transform(data.data)
data_norm = math.sqrt(X.shape[1])
X_train, X_test, y_train, y_test = train_test_split(X, data.target, random_state=0)

# %%
# Ask before spending
# -------------------
# A plan needs the shape of the data and the budget, no rows.

shape = dpfast.ProblemShape(len(X_train), X.shape[1], data_norm=data_norm)
print(dpfast.plan(shape, "auto", dpfast.Budget(epsilon=1.0, delta=1e-6)))

# %%
# Fit
# ---
# ``strict=True`` refuses anything that would have to be read off the data.

model = dpfast.LogisticRegression(
    epsilon=1.0, delta=1e-6, data_norm=data_norm, classes=[0, 1], strict=True
)
model.fit(X_train, y_train)
print(model.privacy_)

# %%
# What did it cost?
# -----------------
# The scores are not private: nobody added noise to them. Here the data are public.

usual = NonPrivate().fit(X_train, y_train)
print(f"private      {model.score(X_test, y_test):.3f}")
print(f"not private  {usual.score(X_test, y_test):.3f}")
print(f"larger class {max(y_test.mean(), 1 - y_test.mean()):.3f}")

# %%
# What may be read from the coefficients?
# ---------------------------------------
# A model of output or objective perturbation knows the law of the noise in its coefficients without
# the data, so it can say what they may have been without noise. The bands hold that, and nothing
# else: not how coefficients vary from one sample of people to another. (This is a second fit on the
# same rows: together they cost more than either; see the example on budgets.)

second = dpfast.LogisticRegression(
    epsilon=1.0,
    delta=1e-6,
    data_norm=data_norm,
    classes=[0, 1],
    solver="output-perturbation",
    strict=True,
)
second.fit(X_train, y_train)
print(second.noise_interval().covers)
display = CoefficientDisplay.from_estimator(second, feature_names=data.feature_names)
