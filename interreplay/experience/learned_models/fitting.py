"""Fits of an ensemble: separate batches for each member, a holdout, early stopping, and the best weights restored."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.experience.learned_models.networks import Networks, ensemble_losses

LEAST_STEPS = 100
"""A member stops only if it has not improved for at least this many steps."""
ROWS_AT_ONCE = 256
"""Held-out rows per forward pass, few enough for the activations to stay in the cache."""


@dataclass(frozen=True)
class FitSettings:
    """Settings of a fit.

    Attributes:
        batch_size: Rows per step of each member.
        learning_rate: Learning rate of Adam. Its moments start at 0 in every fit, the weights do not.
        holdout: Share of the rows that are held out, drawn without replacement.
        patience: A member stops after this many epochs without an improvement of 1 %, but not before 100 steps
            without an improvement: with 600 rows, an epoch has only three steps.
        max_epochs: Maximum number of epochs; None for no limit.
    """

    batch_size: int = 256
    learning_rate: float = 1e-3
    holdout: float = 0.2
    patience: int = 5
    max_epochs: int | None = None

    def patience_in_epochs(self, rows: int) -> int:
        """Return the patience in epochs for `rows` rows: at least `patience`, and at least `LEAST_STEPS` steps."""
        return max(self.patience, math.ceil(LEAST_STEPS / math.ceil(rows / self.batch_size)))

    def __post_init__(self) -> None:
        check_number("holdout", self.holdout, 0, 1, above_low=True, below_high=True)
        for name in ("batch_size", "patience", "max_epochs"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 1, whole=True)
        check_number("learning_rate", self.learning_rate, 0, above_low=True)


class EarlyStopping:
    """Records the best errors of the members of an ensemble, and which members have stopped.

    A member stops after `patience` epochs without an improvement of 1 %.

    Attributes:
        best: Smallest error of each member so far ``(m,)``.
        stopped: ``(m,)`` bool.
    """

    def __init__(self, members: int, patience: int):
        self.patience = patience
        self.best = np.full(members, np.inf)
        self.stopped = np.zeros(members, bool)
        self._reference = np.full(members, np.inf)
        self._waited = np.zeros(members, np.int64)

    def observe(self, errors: np.ndarray) -> np.ndarray:
        """Record the errors ``(m,)`` after an epoch and return which members ``(m,)`` have a new best error.

        Errors of stopped members are ignored.
        """
        better = ~self.stopped & (errors < self.best)
        self.best[better] = errors[better]
        improved = ~self.stopped & (errors < 0.99 * self._reference)
        self._reference[improved] = errors[improved]
        self._waited = np.where(improved, 0, self._waited + 1)
        self.stopped |= self._waited >= self.patience
        return better


def adam(networks: Networks, learning_rate: float) -> torch.optim.Adam:
    """Return Adam (Kingma & Ba 2015) for networks, with the weight decay of each tensor."""
    groups = []
    for values, decay in zip(networks.tensors, networks.decays(), strict=True):
        groups.append({"params": [values.requires_grad_()], "weight_decay": decay})
    return torch.optim.Adam(groups, lr=learning_rate, fused=True)


def copy_adam(optimizer: torch.optim.Adam, networks: Networks, members: Tensor) -> torch.optim.Adam:
    """Return Adam for `networks`, copies of some `members` ``(k,)``, with the moments of these members."""
    continued = adam(networks, optimizer.defaults["lr"])
    for old, values in zip(optimizer.param_groups, networks.tensors, strict=True):
        state = optimizer.state[old["params"][0]]
        moments = {name: state[name].index_select(0, members) for name in ("exp_avg", "exp_avg_sq")}
        continued.state[values] = {"step": state["step"], **moments}
    return continued


@dataclass
class Fit:
    """Result of a fit.

    Attributes:
        errors: Holdout error of each member ``(m,)`` with the restored weights.
        epochs: Number of epochs.
        curve: Errors of all members after each epoch; the best error of members that have stopped.
    """

    errors: np.ndarray
    epochs: int
    curve: list[np.ndarray] = field(default_factory=list)

    def elites(self, count: int) -> list[int]:
        """Return the `count` members with the smallest errors, the best first."""
        return np.argsort(self.errors, kind="stable")[:count].tolist()


def split(rows: int, holdout: float, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return the numbers of training rows and of held-out rows, at least one each."""
    if rows < 2:
        raise ValueError(f"cannot fit a model to {rows} rows; expected at least 2")
    order = torch.from_numpy(rng.permutation(rows))
    held = min(max(1, int(rows * holdout)), rows - 1)
    return order[held:], order[:held]


@torch.no_grad()
def holdout_errors(networks: Networks, rows: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared error of each member's means ``(m,)`` for rows ``(n, in)`` and targets ``(n, d)``."""
    total = torch.zeros(len(networks), dtype=torch.float64, device=rows.device)
    for inputs, expected in zip(rows.split(ROWS_AT_ONCE), targets.split(ROWS_AT_ONCE), strict=True):
        means = networks.forward(inputs)[..., : targets.shape[1]]
        total += (means - expected).square().sum(dim=(1, 2), dtype=torch.float64)
    return total / targets.numel()


@torch.no_grad()
def fit(
    networks: Networks, rows: Tensor, targets: Tensor, held_out: Tensor, settings: FitSettings, rng: np.random.Generator
) -> Fit:
    """Fit each member separately to rows ``(n, in)`` and targets ``(n, d)``, starting from its current weights.

    Both are standardized; no member is trained on the rows with numbers `held_out`. Each member receives the weights of
    its best epoch.
    """
    trained = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    trained[held_out] = False
    checked = (rows[held_out], targets[held_out])
    train_rows = rows[trained]
    train_targets = targets[trained]
    generator = torch.Generator(device=rows.device).manual_seed(int(rng.integers(2**62)))
    stopping = EarlyStopping(len(networks), settings.patience_in_epochs(len(train_rows)))
    errors = holdout_errors(networks, *checked).numpy(force=True)
    stopping.observe(errors)
    result = Fit(errors, epochs=0)
    active = torch.arange(len(networks), device=rows.device)
    working = networks.copy_members(active)
    optimizer = adam(working, settings.learning_rate)
    while len(active) and (settings.max_epochs is None or result.epochs < settings.max_epochs):
        epoch(working, optimizer, train_rows, targets=train_targets, batch_size=settings.batch_size, rng=generator)
        errors[active.numpy(force=True)] = holdout_errors(working, *checked).numpy(force=True)
        better = torch.from_numpy(stopping.observe(errors)).to(active.device)[active]
        networks.put(active[better], [values[better] for values in working.tensors])
        result.epochs += 1
        result.curve.append(np.where(stopping.stopped, stopping.best, errors))
        kept = torch.nonzero(~torch.from_numpy(stopping.stopped).to(active.device)[active]).flatten()
        if len(kept) < len(active):
            active = active[kept]
            working = working.copy_members(kept)
            optimizer = copy_adam(optimizer, working, kept)
    result.errors = stopping.best
    return result


@torch.enable_grad()
def epoch(
    networks: Networks,
    optimizer: torch.optim.Optimizer,
    rows: Tensor,
    targets: Tensor,
    batch_size: int,
    rng: torch.Generator,
) -> None:
    """Train every member once on all rows, in a separate random order."""
    members = len(networks)
    orders = torch.stack([torch.randperm(len(rows), generator=rng, device=rows.device) for _ in range(members)])
    for indices in orders.split(batch_size, dim=1):
        shape = (members, indices.shape[1], -1)
        flat = indices.reshape(-1)
        batch = rows.index_select(0, flat).view(shape)
        expected = targets.index_select(0, flat).view(shape)
        dropped = networks.draw_dropped(indices.shape[1], rng)
        optimizer.zero_grad()
        ensemble_losses(networks, batch, expected, dropped).sum().backward()
        optimizer.step()
