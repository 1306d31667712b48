"""JAX by hand: per-sample gradients by vmap, clipped, noised, summed, all steps compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.competitors import _descent
from bench.competitors._contract import Task

NAME = "JAX, by hand"
MODULE = "jax"
RELATION, DELTA, GUARANTEE = _descent.RELATION, _descent.DELTA, _descent.guarantee("JAX")


def fit(task: Task) -> NDArray[np.float64]:
    import jax
    import jax.numpy as jnp

    X = jnp.asarray(_descent.rows(task), jnp.float32)
    y = jnp.asarray(task.y, jnp.float32)

    def loss(w: Any, x: Any, label: Any) -> Any:
        return jax.nn.softplus(-label * (x @ w))

    gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))

    @jax.jit
    def descend(X: Any, y: Any, keys: Any, scale: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            w, velocity = state
            rows = gradients(w, X, y)
            norms = jnp.maximum(jnp.linalg.norm(rows, axis=1), 1e-12)
            factors = jnp.minimum(_descent.CLIP_NORM / norms, 1.0)
            noisy = factors @ rows + scale * jax.random.normal(key, w.shape)
            velocity = _descent.MOMENTUM * velocity + noisy / len(y)
            return (w - _descent.RATE * velocity, velocity), None

        start = jnp.zeros(X.shape[1])
        return jax.lax.scan(step, (start, start), keys)[0][0]

    keys = jax.random.split(jax.random.key(task.seed), _descent.STEPS)
    found = np.asarray(
        descend(X, y, keys, _descent.noise_scale(task.epsilon, task.delta)), dtype=np.float64
    )
    return _descent.weights(found, task)
