"""PyTorch by hand: per-sample gradients by vmap, clipped, noised, summed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.competitors import _descent
from bench.competitors._contract import Task

NAME = "PyTorch, by hand"
MODULE = "torch"
RELATION, DELTA, GUARANTEE = _descent.RELATION, _descent.DELTA, _descent.guarantee("PyTorch")


def fit(task: Task) -> NDArray[np.float64]:
    import torch
    from torch.func import grad, vmap

    generator = torch.Generator().manual_seed(task.seed)
    X = torch.from_numpy(_descent.rows(task)).float()
    y = torch.from_numpy(task.y).float()

    def loss(w: torch.Tensor, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.softplus(-label * (x @ w))

    gradients = vmap(grad(loss), in_dims=(None, 0, 0))
    scale = _descent.noise_scale(task.epsilon, task.delta)
    w, velocity = torch.zeros(X.shape[1]), torch.zeros(X.shape[1])
    for _ in range(_descent.STEPS):
        rows = gradients(w, X, y)
        factors = (_descent.CLIP_NORM / rows.norm(dim=1).clamp(min=1e-12)).clamp(max=1.0)
        noise = scale * torch.randn(w.shape, generator=generator)
        velocity = _descent.MOMENTUM * velocity + (factors @ rows + noise) / len(y)
        w = w - _descent.RATE * velocity
    found = w.double().numpy()
    return _descent.weights(found, task)
