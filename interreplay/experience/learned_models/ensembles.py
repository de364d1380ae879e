"""Ensembles of fully connected networks, and their fits.

Each member has its own batches, stops early by the error on held-out rows, and receives its best weights.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from interreplay.errors import check_number

DECAYS = (2.5e-5, 5e-5, 7.5e-5, 1e-4)
"""Weight decay of the first, the second, all further hidden layers and the last layer (Janner et al. 2019)."""
MAX_LOG_VARIANCE = 0.5
MIN_LOG_VARIANCE = -10.0
"""Initial bounds of the log variances."""


class Networks:
    """m fully connected networks with SiLU between layers, computed in one batched product per layer.

    Weights are initialized as in the code of MBPO: normal with standard deviation 1/(2√fan_in), drawn again if beyond
    two standard deviations. Biases start at 0.

    Args:
        sizes: Widths from the input to the output.
        bounds: Number d of log variances with learned bounds; 0 without log variances.
        dropout: Probability with which units of all hidden layers but the first are dropped during learning.
        matrix_dtype: Type of the products between hidden layers; None for the type of the parameters.

    Attributes:
        weights: ``(m, in, out)`` of every layer.
        biases: ``(m, 1, out)`` of every layer.
        bounds: Largest and smallest log variances ``(m, 1, d)``, or an empty list.
    """

    def __init__(
        self,
        members: int,
        sizes: Sequence[int],
        rng: np.random.Generator,
        bounds: int = 0,
        dropout: float = 0.0,
        device: str | torch.device = "cpu",
        matrix_dtype: torch.dtype | None = None,
    ):
        self.sizes = tuple(sizes)
        self.dropout = dropout
        self.matrix_dtype = matrix_dtype
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        self.weights: list[Tensor] = []
        self.biases: list[Tensor] = []
        self.bounds: list[Tensor] = []
        for fan_in, fan_out in pairwise(sizes):
            drawn = torch.randn((members, fan_in, fan_out), generator=generator)
            while (beyond := drawn.abs() > 2).any():
                drawn[beyond] = torch.randn(int(beyond.sum()), generator=generator)
            self.weights.append((drawn * (0.5 / fan_in**0.5)).to(device))
            self.biases.append(torch.zeros((members, 1, fan_out), device=device))
        if bounds:
            for limit in (MAX_LOG_VARIANCE, MIN_LOG_VARIANCE):
                self.bounds.append(torch.full((members, 1, bounds), limit, device=device))

    def __len__(self) -> int:
        return len(self.weights[0])

    @property
    def tensors(self) -> list[Tensor]:
        """All parameters: weights, biases and bounds."""
        return [*self.weights, *self.biases, *self.bounds]

    def copy_members(self, members: Tensor) -> Networks:
        """Return copies of some networks, given their numbers ``(k,)``."""
        copies = copy.copy(self)
        for name in ("weights", "biases", "bounds"):
            setattr(copies, name, [values.detach().index_select(0, members) for values in getattr(self, name)])
        return copies

    def put(self, members: Tensor, others: Sequence[Tensor]) -> None:
        """Overwrite the parameters of `members` ``(k,)``; `others` are in the order of `tensors`."""
        for own, values in zip(self.tensors, others, strict=True):
            own[members] = values

    def forward(self, rows: Tensor, dropped: Sequence[Tensor | None] | None = None) -> Tensor:
        """Return the outputs ``(m, n, out)`` for rows ``(m, n, in)``, or ``(n, in)`` for all networks.

        `dropped` contains the dropout factors of every hidden layer, see `draw_dropped`; None without dropout.
        """
        values = rows.expand(len(self), *rows.shape[-2:])
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            dtype = weight.dtype
            if self.matrix_dtype is not None and 0 < i < last:
                dtype = self.matrix_dtype
            values = torch.baddbmm(bias.to(dtype), values.to(dtype), weight.to(dtype))
            if i == last:
                break
            values = functional.silu(values, inplace=not values.requires_grad)
            factors = None if dropped is None else dropped[i]
            if factors is not None:
                values = values * factors
        return values

    def draw_dropped(self, rows: int, rng: torch.Generator) -> list[Tensor | None] | None:
        """Draw dropout factors, 0 with probability p (up to 2⁻¹⁶) or 1/(1 − p), for every hidden layer but the first.

        Each factor takes 16 random bits. This takes less than half the time of PyTorch's Bernoulli draws, which took a
        third of a deterministic model's step.

        Returns:
            Factors ``(m, n, width)`` of every hidden layer, None for the first; None without dropout.
        """
        if not self.dropout:
            return None
        factors: list[Tensor | None] = [None]
        for width in self.sizes[2:-1]:
            shape = (len(self), rows, width)
            count = math.prod(shape)
            bits = torch.empty((count + 3) // 4, dtype=torch.int64, device=self.weights[0].device)
            bits.random_(-(2**63), None, generator=rng)
            kept = bits.view(torch.int16)[:count].view(shape) >= int(self.dropout * 2**16) - 2**15
            factors.append(kept.to(self.weights[0].dtype).mul_(1.0 / (1.0 - self.dropout)))
        return factors

    def forward_member(self, member: int, rows: Tensor) -> Tensor:
        """Return the outputs ``(n, out)`` of one network for rows ``(n, in)``."""
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            rows = torch.addmm(bias[member], rows, weight[member])
            if i < last:
                functional.silu(rows, inplace=True)
        return rows

    def state_dict(self) -> dict[str, Any]:
        """Return the parameters as arrays that share their memory."""
        return {str(i): values.numpy(force=True) for i, values in enumerate(self.tensors)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the parameters of a state."""
        for i, values in enumerate(self.tensors):
            values.copy_(torch.as_tensor(np.asarray(state[str(i)])))


BOUND_WEIGHT = 0.01
"""Weight of the spread of the log-variance bounds in the loss."""


def log_variances(raw: Tensor, highest: Tensor, lowest: Tensor) -> Tensor:
    """Return log variances ``(m, n, d)``, softly clamped between bounds ``(m, 1, d)`` (Chua et al. 2018).

    h − softplus(h − x) is smooth and below h for every x; the lower bound is applied in the same way.
    """
    below = highest - functional.softplus(highest - raw)
    return lowest + functional.softplus(below - lowest)


def ensemble_losses(
    networks: Networks, rows: Tensor, targets: Tensor, dropped: list[Tensor | None] | None = None
) -> Tensor:
    """Return the loss of each network ``(m,)`` for rows ``(m, n, in)`` and targets ``(m, n, d)``, without weight decay.

    Networks with log-variance bounds minimize the Gaussian negative log-likelihood, the mean over rows and columns of
    (μ − y)²·e^(−v) + v, plus .01 times the sum of the largest minus the smallest log variances (Janner et al. 2019,
    arXiv:1906.08253). Other networks minimize the mean squared error.
    """
    outputs = networks.forward(rows, dropped)
    if not networks.bounds:
        return (outputs - targets).square().mean(dim=(1, 2))
    highest, lowest = networks.bounds
    means, raw = outputs.chunk(2, dim=-1)
    variances = log_variances(raw, highest, lowest)
    errors = (means - targets).square() * (-variances).exp() + variances
    return errors.mean(dim=(1, 2)) + BOUND_WEIGHT * (highest - lowest).sum(dim=(1, 2))


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
    """Return Adam (Kingma & Ba 2015) for networks, with the weight decay of each weight; 0 for biases and bounds."""
    groups: list[dict[str, Any]] = []
    last = len(networks.weights) - 1
    for layer, values in enumerate(networks.tensors):
        decay = 0.0
        if layer < last:
            decay = DECAYS[min(layer, 2)]
        elif layer == last:
            decay = DECAYS[3]
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
    orders = []
    for _ in range(members):
        orders.append(torch.randperm(len(rows), generator=rng, device=rows.device))
    for indices in torch.stack(orders).split(batch_size, dim=1):
        shape = (members, indices.shape[1], -1)
        flat = indices.reshape(-1)
        batch = rows.index_select(0, flat).view(shape)
        expected = targets.index_select(0, flat).view(shape)
        dropped = networks.draw_dropped(indices.shape[1], rng)
        optimizer.zero_grad()
        ensemble_losses(networks, batch, expected, dropped).sum().backward()
        optimizer.step()
