"""
Solvers compared on public data
===============================

The same model and budget, by several private algorithms. Such a comparison fits many times and
scores without noise, so it is for public or made-up data, as here.
"""

import math

from sklearn.linear_model import LogisticRegression as NonPrivate
from sklearn.model_selection import train_test_split

from dpfast import LogisticRegression
from dpfast.datasets import load_randhie
from dpfast.plotting import PrivacyUtilityDisplay, SolverComparisonDisplay
from dpfast.preprocessing import BoundedScaler

data = load_randhie()
X = BoundedScaler(list(data.bounds.values())).fit_transform(data.data)
X_train, X_test, y_train, y_test = train_test_split(X, data.target, random_state=0)
test = {"X_test": X_test, "y_test": y_test}
references = {
    "not private": NonPrivate().fit(X_train, y_train).score(X_test, y_test),
    "larger class": float(y_test.mean()),
}

model = LogisticRegression(
    epsilon=0.5, delta=1e-6, data_norm=math.sqrt(X.shape[1]), classes=[0, 1], strict=True
)
names = ["auto", "objective-perturbation", "output-perturbation", "dp-nag-opt"]
display = SolverComparisonDisplay.from_estimator(
    model, X_train, y_train, solvers=names, repeats=3, references=references, **test
)

# %%
# And the default over a range of ε:

display = PrivacyUtilityDisplay.from_estimator(
    model, X_train, y_train, epsilons=[0.1, 0.5, 2.0], repeats=3, references=references, **test
)
