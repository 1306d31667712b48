"""
Rows or persons
===============

Where a person has several rows, ε for a row is not ε for a person. ``groups`` says whose row each
is, and the guarantee is then about all rows of a person together. What does that cost?
"""

import matplotlib.pyplot as plt
import numpy as np

from dpfast import LogisticRegression

rng = np.random.default_rng(0)
n_persons, visits, n_features = 2000, 5, 5
person = np.repeat(np.arange(n_persons), visits)


def rows(n):
    X = rng.uniform(-1.0, 1.0, (n, n_features))
    return X, X @ [2.0, -1.0, 1.0, 0.0, 0.0] + rng.logistic(size=n) > 0


others, outcomes = rows(200_000)  # of other persons, to measure by

# %%
# Three fits that promise a person the same: all her rows are clipped as one (``groups``); one of
# them is kept (``max_rows_per_group=1``); ε is divided among the five (for
# exactly the same promise δ would have to be divided, too). The fourth promises ε to a row, and so
# five times as much to a person: not the same at all.


def fitted(X, y, epsilon, *, max_rows=None, groups=None):
    model = LogisticRegression(
        epsilon=epsilon,
        delta=1e-6,
        data_norm=np.sqrt(n_features),
        classes=[False, True],
        max_rows_per_group=max_rows,
        random_state=int(rng.integers(2**31)),  # for a page that can be repeated; never release it
    )
    return model.fit(X, y, groups=groups)


def loss(way, epsilon):
    log_proba = way(*rows(len(person)), epsilon).predict_log_proba(others)
    return -np.where(outcomes, log_proba[:, 1], log_proba[:, 0]).mean()


epsilons = [0.1, 0.2, 0.5, 1.0, 2.0]
ways = {
    "whole persons (groups)": lambda X, y, e: fitted(X, y, e, groups=person),
    "one row a person": lambda X, y, e: fitted(X, y, e, groups=person, max_rows=1),
    "ε / 5 for each row": lambda X, y, e: fitted(X, y, e / visits),
    "ε for a row: 5 ε for a person": lambda X, y, e: fitted(X, y, e),
}
losses = {
    name: [np.mean([loss(way, epsilon) for _ in range(8)]) for epsilon in epsilons]
    for name, way in ways.items()
}

figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
for (name, values), style in zip(losses.items(), ["o-", "s-", "^-", "k:"], strict=True):
    ax.semilogx(epsilons, values, style, label=name)
ax.set(xlabel="stated ε", ylabel="log-loss on other persons", xticks=epsilons, xticklabels=epsilons)
ax.minorticks_off()
ax.legend()

# %%
# Here a person's rows have little in common, so that gradients of one person cancel in part: from
# ε = 0.5 on, whole persons cost hardly more than rows. :doc:`/guide/persons` has what it costs
# where they are alike, and what is public. The report says what is promised, and to whom:

report = fitted(*rows(len(person)), 1.0, groups=person).privacy_
print(str(report).splitlines()[0])
