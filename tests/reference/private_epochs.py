"""Private mini-batch steps by the definition: one row after another, in NumPy."""

import numpy as np


def private_epoch(rows, target, weight, derivative, w, batches, sizes, *, divisor, alpha=0.0,
                  clip_norm=np.inf, w_radius=np.inf, momentum=0.0, noise=None, snapshot=None,
                  snapshot_gradient=None, average_weight=None):  # fmt: skip
    """Return the last iterate, the velocity and the weighted sum of the iterates.

    `rows` have the intercept's column; `batches` is a list of index arrays, `derivative` the loss's
    as a function of margin and target, `noise` one vector a step.
    """
    w, velocity, total = w.copy(), np.zeros_like(w), np.zeros_like(w)
    for t, batch in enumerate(batches):
        gradient = np.zeros_like(w)
        for i in batch:
            vector = derivative(rows[i] @ w, target[i]) * rows[i]
            if snapshot is not None:
                vector = vector - derivative(rows[i] @ snapshot, target[i]) * rows[i]
            norm = np.linalg.norm(vector)
            if norm > clip_norm:
                vector = vector * (clip_norm / norm)
            gradient += weight[i] * vector
        if noise is not None:
            gradient += noise[t]
        gradient /= divisor
        if snapshot_gradient is not None:
            gradient += snapshot_gradient
        velocity = momentum * velocity + gradient
        w = (1.0 - sizes[t] * alpha) * w - sizes[t] * velocity
        norm = np.linalg.norm(w)
        if norm > w_radius:
            w = w * (w_radius / norm)
        total += (1.0 if average_weight is None else average_weight[t]) * w
    return w, velocity, total
