"""Mixup with a learned temperature, which avoids blends that violate the dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from interreplay.errors import check_number
from interreplay.learning.networks.layers import MLP
from interreplay.learning.networks.optimizers import FastAdam
from interreplay.synthesis.base import Synthesized
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.mixup import Mixup, TerminationFn
from interreplay.transitions import Transitions, as_tensor, features, flat_parts

LOWEST = 1e-3
"""Smallest temperature; Beta(.001, .001) is practically 0 or 1."""


class AdaptiveMixup(Mixup):
    """Mixup with λ ~ Beta(β, β) and a learned temperature β (Lin et al. 2021, arXiv:2011.14487).

    A model f(s, a) → [s'; r] is fitted to both ends of every batch by the mean squared error. The distance of a blend
    from the dynamics is d = mean over dimensions of (f(z_λ) − [λ f(z_i) + (1 − λ) f(z_j)])². β starts at 1, follows the
    gradient of mean(log β·(d − τ)) over the blended rows and is clamped to [.001, 1]: d > τ lowers β and moves λ
    toward the ends. The model and β are updated once per batch, after its rows were made.

    In the authors' code (github.com/junfanlin/continuous-transition), β is clamped to [0, 1] for SAC and [1e-6, 1] for
    TD3, d is computed after the update of the model, and steps before a terminated one are blended, with a fractional
    termination.

    The model's inputs are not normalized. Its initial weights are drawn from `rng`. The state contains everything that
    is learned.

    Args:
        threshold: τ > 0, in squared units of [s'; r].
        lr: Learning rate of Adam for the model and for β.
        hiddens: Widths of the model's hidden layers.
        prob_interpolation: Probability with which a row is blended.
        termination_fn: ``(s, a, s') -> (n,) bool``, or an environment's id; see `Blend`.
        interp_decay: Decrease of `prob_interpolation` over the run.

    Raises:
        ValueError: If an argument is out of range.
    """

    independent_rows = False  # each batch changes the next one

    def __init__(
        self,
        threshold: float = 0.1,
        lr: float = 3e-4,
        hiddens: Sequence[int] = (256, 256),
        prob_interpolation: float = 1.0,
        termination_fn: TerminationFn | str | None = None,
        interp_decay: float = 0.0,
    ):
        check_number("threshold", threshold, 0, above_low=True)
        check_number("lr", lr, 0, above_low=True)
        self.beta = Beta(1.0)
        super().__init__(self.beta, prob_interpolation, termination_fn, interp_decay)
        self.threshold = float(threshold)
        self.lr = float(lr)
        self.hiddens = tuple(hiddens)
        self.fit: DynamicsModel | None = None

    @property
    def temperature(self) -> float:
        """Current parameter β of the distribution of λ."""
        return self.beta.alpha

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        made = super().__call__(anchors, neighbors, rng)
        mix = made.mix
        assert mix is not None
        partners = self.partners(neighbors)
        start = features(anchors).float()
        end = features(partners).float()
        targets = torch.cat([outcomes(anchors), outcomes(partners)])
        if self.fit is None:
            sizes = [start.shape[1], *self.hiddens, targets.shape[1]]
            self.fit = DynamicsModel(sizes, self.lr, seed=int(rng.integers(2**62)))
        blended = (mix < 1) & (start != end).any(dim=1)
        distances = self.fit.update(torch.cat([start, end]), targets, mix.float())[blended]
        if len(distances):
            self.beta.alpha = self.fit.update_temperature(float(distances.mean()) - self.threshold)
        return made

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict() | {"temperature": self.temperature}
        if self.fit is not None:
            state["fit"] = self.fit.state()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.beta.alpha = float(state["temperature"])
        self.fit = None
        if "fit" in state:
            self.fit = DynamicsModel(list(map(int, state["fit"]["sizes"])), self.lr)
            self.fit.load(state["fit"])


class DynamicsModel:
    """The model of the dynamics and the temperature, each with its own Adam.

    Args:
        sizes: Widths of the model's layers, from [s; a] to [s'; r].
    """

    def __init__(self, sizes: Sequence[int], lr: float, seed: int = 0):
        self.sizes = list(sizes)
        with torch.random.fork_rng(devices=[]):  # leaves the caller's generator unchanged
            self.model = MLP(self.sizes)
        self.model.reset(torch.Generator().manual_seed(seed))  # other threads use the global generator
        self.beta = nn.Parameter(torch.ones(()))
        self.parameters = [list(self.model.parameters()), [self.beta]]
        self.optimizers = [FastAdam(parameters, lr) for parameters in self.parameters]

    def update(self, inputs: Tensor, targets: Tensor, mix: Tensor) -> Tensor:
        """Take one gradient step of the model f at the ends of n lines.

        Args:
            inputs: z of n anchors, then of their n partners ``(2n, d)``.
            targets: Their outcomes [s'; r] ``(2n, e)``.
            mix: λ ``(n,)``.

        Returns:
            Distances ``(n,)`` of f, before the step, at λ from the line between anchor and partner.
        """
        with torch.enable_grad():
            predicted = self.model(inputs)
            gradients = torch.autograd.grad(nn.functional.mse_loss(predicted, targets), self.parameters[0])
        with torch.no_grad():
            share = mix.unsqueeze(1)
            start, end = inputs.chunk(2)
            start_outcome, end_outcome = predicted.chunk(2)
            line = torch.lerp(end_outcome, start_outcome, share)
            distances = (self.model(torch.lerp(end, start, share)) - line).square().mean(dim=1)
        for parameter, gradient in zip(self.parameters[0], gradients, strict=True):
            parameter.grad = gradient
        self.optimizers[0].apply()
        return distances

    def update_temperature(self, excess: float) -> float:
        """Take a step of β on mean(log β·(d − τ)) with gradient `excess` / β; return the new β."""
        self.beta.grad = torch.full_like(self.beta, excess) / self.beta.detach()
        self.optimizers[1].apply()
        with torch.no_grad():
            self.beta.clamp_(LOWEST, 1.0)
        return float(self.beta.detach())

    def state(self) -> dict[str, Any]:
        """Return weights, β and the states of Adam; arrays share memory."""
        weights = []
        adam = []
        for optimizer, parameters in zip(self.optimizers, self.parameters, strict=True):
            weights.append([parameter.data for parameter in parameters])
            adam.append([dict(optimizer.state.get(parameter, {})) for parameter in parameters])
        return {"sizes": self.sizes, "weights": weights, "adam": adam}

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state before the first update."""
        saved = zip(self.optimizers, self.parameters, state["weights"], state["adam"], strict=True)
        for optimizer, parameters, weights, entries in saved:
            for parameter, values, entry in zip(parameters, weights, entries, strict=True):
                parameter.data = as_tensor(values).clone()
                if entry:
                    optimizer.state[parameter] = {name: as_tensor(value).clone() for name, value in entry.items()}


def outcomes(rows: Transitions) -> Tensor:
    """Return [s'; r] of rows, float32 ``(n, d)``."""
    return torch.cat([*flat_parts(rows.next_obs, 1), rows.rewards.unsqueeze(1)], dim=1).float()
