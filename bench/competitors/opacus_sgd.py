"""Opacus: DP-SGD as its tutorials run it."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from bench.competitors._contract import Task

NAME = "opacus"
MODULE = "opacus"
RELATION, DELTA = "add_or_remove_one", True
GUARANTEE = (
    "(epsilon, delta)-DP under add_or_remove_one in real arithmetic, by its PRV accountant; noise "
    "and batches of PyTorch's generator; settings chosen on RAND HIE for free"
)
# The best of five on RAND HIE.
_BATCH, _EPOCHS, _CLIP_NORM, _RATE, _MOMENTUM = 1024, 6, 1.0, 1.0, 0.9


def fit(task: Task) -> NDArray[np.float64]:
    import torch
    from opacus import PrivacyEngine

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its noise is not from a secure generator
        torch.manual_seed(task.seed)
        rows = torch.utils.data.TensorDataset(
            torch.from_numpy(task.X / task.data_norm).float(), torch.from_numpy(task.y).float()
        )
        model = torch.nn.Linear(task.X.shape[1], 1)
        torch.nn.init.zeros_(model.weight)
        torch.nn.init.zeros_(model.bias)
        module, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=_RATE, momentum=_MOMENTUM),
            data_loader=torch.utils.data.DataLoader(rows, batch_size=min(_BATCH, len(rows))),
            target_epsilon=task.epsilon,
            target_delta=task.delta,
            epochs=_EPOCHS,
            max_grad_norm=_CLIP_NORM,
        )
        for _ in range(_EPOCHS):
            for X, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.softplus(-y * module(X).squeeze(1)).mean().backward()
                optimizer.step()
    weight = model.weight.detach().double().numpy()[0] / task.data_norm
    return np.append(weight, float(model.bias.detach()))
