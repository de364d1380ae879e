"""Fitting an ensemble: batches of its own for each member, a holdout, early stopping, the best weights restored."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.experience.learned_models.losses import learn
from interreplay.experience.learned_models.networks import Networks, Workspace

LEAST_STEPS = 100
"""Steps without an improvement before which no member stops."""
ROWS_AT_ONCE = 256
"""Rows of the holdout in one pass."""


@dataclass(frozen=True)
class FitSettings:
    """How a fit goes.

    Attributes:
        batch_size: Rows per step of each member.
        learning_rate: Of Adam, which starts anew with every fit; weights do not.
        holdout: Share of the rows that are held out, drawn without replacement.
        patience: Epochs without an improvement by 1 % after which a member stops, but no fewer than have 100 steps:
            with 600 rows an epoch has three, and members would stop before they have learned.
        max_epochs: Most epochs; None for no bound.
    """

    batch_size: int = 256
    learning_rate: float = 1e-3
    holdout: float = 0.2
    patience: int = 5
    max_epochs: int | None = None

    def patience_of(self, rows: int) -> int:
        """Return the patience, in epochs, of a fit to so many rows: of few rows more, until `LEAST_STEPS` were made."""
        return max(self.patience, math.ceil(LEAST_STEPS / math.ceil(rows / self.batch_size)))

    def __post_init__(self) -> None:
        check_number("holdout", self.holdout, 0, 1, above_low=True, below_high=True)
        for name in ("batch_size", "patience", "max_epochs"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 1, whole=True)
        check_number("learning_rate", self.learning_rate, 0, above_low=True)


class EarlyStopping:
    """Which members of an ensemble improve, and which have stopped.

    Args:
        members: m.
        patience: Epochs without an improvement after which a member stops.
        least: Share of its error by which a member has to improve for it to count.

    Attributes:
        best: Smallest error of each so far ``(m,)``.
        best_epoch: Of these ``(m,)``; 0 for the weights that the fit began with.
        stopped: ``(m,)`` bool.
    """

    def __init__(self, members: int, patience: int, least: float = 0.01):
        self.patience, self.least, self.epoch = patience, least, -1
        self.best, self._counted = np.full(members, np.inf), np.full(members, np.inf)
        self.best_epoch, self._since = np.zeros(members, np.int64), np.zeros(members, np.int64)
        self.stopped = np.zeros(members, bool)

    def observe(self, errors: np.ndarray) -> np.ndarray:
        """Take note of the errors ``(m,)`` after an epoch, and return which members ``(m,)`` were never better.

        What those that have stopped say is passed over.
        """
        self.epoch += 1
        better = ~self.stopped & (errors < self.best)
        self.best[better], self.best_epoch[better] = errors[better], self.epoch
        counts = ~self.stopped & (errors < (1.0 - self.least) * self._counted)
        self._counted[counts] = errors[counts]
        self._since = np.where(counts, 0, self._since + 1)
        self.stopped |= self._since >= self.patience
        return better


class Adam:
    """Adam (Kingma & Ba 2015) of the tensors of some members, in one fused kernel per weight decay."""

    def __init__(self, networks: Networks, rate: float):
        self.rate = rate
        self._averages, self._squares = ([torch.zeros_like(t) for t in networks.tensors] for _ in range(2))
        self._steps = [torch.zeros((), device=networks.weights[0].device)]
        decays = networks.decays()
        self._groups = [(decay, [i for i, own in enumerate(decays) if own == decay]) for decay in sorted({*decays})]

    def keep(self, members: Tensor) -> None:
        """Go on with some of the members, by their numbers ``(k,)``."""
        for moments in (self._averages, self._squares):
            moments[:] = [values.index_select(0, members) for values in moments]

    def step(self, networks: Networks, gradients: list[Tensor]) -> None:
        """Make a step."""
        tensors = networks.tensors
        self._steps[0] += 1
        for decay, which in self._groups:
            parts = (tensors, gradients, self._averages, self._squares)
            values, slopes, averages, squares = ([of[i] for i in which] for of in parts)
            torch._fused_adam_(
                values,
                slopes,
                averages,
                squares,
                [],
                self._steps * len(which),
                lr=self.rate,
                beta1=0.9,
                beta2=0.999,
                weight_decay=decay,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )


@dataclass
class Fit:
    """What a fit came to.

    Attributes:
        errors: Holdout error of each member ``(m,)``, of the weights that were restored.
        best_epochs: Epochs after which these were reached ``(m,)``; 0 for the weights that the fit began with.
        epochs: That were made.
        held_out: Numbers of the rows that were held out.
        curve: Errors of all members after each epoch; of those that had stopped, their best.
    """

    errors: np.ndarray
    best_epochs: np.ndarray
    epochs: int
    held_out: Tensor
    curve: list[np.ndarray] = field(default_factory=list)

    def elites(self, count: int) -> list[int]:
        """Return the `count` members of the smallest errors, the best first."""
        return np.argsort(self.errors, kind="stable")[:count].tolist()


def split(rows: int, holdout: float, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return the numbers of rows to learn from and of those held out, at least one of each, every row once.

    Raises:
        ValueError: Of fewer than two rows.
    """
    if rows < 2:
        raise ValueError(f"cannot fit a model to {rows} rows; expected at least 2")
    order = torch.from_numpy(rng.permutation(rows))
    held = min(max(1, int(rows * holdout)), rows - 1)
    return order[held:], order[:held]


@torch.no_grad()
def holdout_errors(networks: Networks, rows: Tensor, targets: Tensor, memory: Workspace | None = None) -> Tensor:
    """Return the mean squared error of each member's means ``(m,)`` for rows ``(n, in)`` and targets ``(n, d)``.

    So many rows at a time as `memory` is for, which then stay in the cache.
    """
    memory = Workspace(networks, min(ROWS_AT_ONCE, len(rows))) if memory is None else memory
    total = torch.zeros(len(networks), dtype=torch.float64, device=rows.device)
    for some, wanted in zip(rows.split(memory.rows), targets.split(memory.rows), strict=True):
        fitting = memory if len(some) == memory.rows else None
        means = networks.forward(some, memory=fitting).outputs[..., : targets.shape[1]]
        total += (means - wanted).square().sum(dim=(1, 2), dtype=torch.float64)
    return total / targets.numel()


@torch.no_grad()
def fit(
    networks: Networks, rows: Tensor, targets: Tensor, held_out: Tensor, settings: FitSettings, rng: np.random.Generator
) -> Fit:
    """Fit all members to rows ``(n, in)`` and targets ``(n, d)``, each by itself, from their weights of now.

    Args:
        networks: Get the weights of their best epochs.
        rows: What they see, standardized.
        targets: What they are to predict, standardized.
        held_out: Numbers of the rows that no member learns from.
        settings: How.
        rng: Source of randomness.
    """
    learned = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    learned[held_out] = False
    own, wanted = rows[learned], targets[learned]
    checked = rows[held_out], targets[held_out]
    generator = torch.Generator(device=rows.device).manual_seed(int(rng.integers(2**62)))
    stopping = EarlyStopping(len(networks), settings.patience_of(len(own)))
    active = torch.arange(len(networks), device=rows.device)
    working, errors = networks.some(active), holdout_errors(networks, *checked).numpy(force=True)
    stopping.observe(errors)
    found = Fit(errors, stopping.best_epoch, 0, held_out)
    adam, size = Adam(working, settings.learning_rate), min(settings.batch_size, len(own))
    memory = Workspace(working, size)
    while len(active) and (settings.max_epochs is None or found.epochs < settings.max_epochs):
        epoch(working, adam, own, wanted, memory, generator)
        errors[active.numpy(force=True)] = holdout_errors(working, *checked, memory).numpy(force=True)
        better = torch.from_numpy(stopping.observe(errors)).to(active.device)[active]
        networks.put(active[better], [values[better] for values in working.tensors])
        found.epochs += 1
        found.curve.append(np.where(stopping.stopped, stopping.best, errors))
        kept = torch.nonzero(~torch.from_numpy(stopping.stopped).to(active.device)[active]).flatten()
        if len(kept) < len(active):
            active, working = active[kept], working.some(kept)
            adam.keep(kept)
            memory = Workspace(working, size)
    found.errors, found.best_epochs = stopping.best, stopping.best_epoch
    return found


def epoch(
    networks: Networks, adam: Adam, rows: Tensor, targets: Tensor, memory: Workspace, rng: torch.Generator
) -> None:
    """Let every member learn from all rows once, in an order of its own, by batches of the rows of `memory`."""
    members = len(networks)
    orders = torch.stack([torch.randperm(len(rows), generator=rng, device=rows.device) for _ in range(members)])
    for which in orders.split(memory.rows, dim=1):
        shape, flat = (members, which.shape[1], -1), which.reshape(-1)
        own, wanted = rows.index_select(0, flat).view(shape), targets.index_select(0, flat).view(shape)
        dropped = networks.draw_dropped(which.shape[1], rng)
        fitting = memory if which.shape[1] == memory.rows else None
        adam.step(networks, learn(networks, own, wanted, dropped, fitting).gradients)
