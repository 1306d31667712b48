"""
What privacy costs, before any data is there
============================================

Plans are made from public numbers: rows, columns, the bound of the norm. Below, the accuracy loss
that they expect against ε. An upper bound is not what will happen; the legend says which is which.
"""

import numpy as np

from dpfast import ProblemShape
from dpfast.plotting import PrivacyUtilityDisplay

epsilons = np.geomspace(0.01, 100.0, 13)
shape = ProblemShape(n_samples=50_000, n_features=30, data_norm=1.0)
display = PrivacyUtilityDisplay.from_plans(shape, 1e-6, epsilons, mark=1.0)

# %%
# Four times the rows, at the same ε:

more = ProblemShape(n_samples=200_000, n_features=30, data_norm=1.0)
display = PrivacyUtilityDisplay.from_plans(more, 1e-6, epsilons, mark=1.0)
