"""A mixing coefficient that keeps to the ends where the line between them leaves the dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from interreplay.argument_checks import check_number
from interreplay.learning.networks.layers import MLP
from interreplay.learning.networks.optimizers import FastAdam
from interreplay.synthesis.base import Synthesized
from interreplay.synthesis.blend import TerminationFn
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.mixup import Mixup
from interreplay.transitions import Transitions, as_tensor, features, flat_parts

LOWEST = 1e-3
"""Of the temperature; Beta(.001, .001) is at one of the ends for all purposes."""


class AdaptiveMixup(Mixup):
    """Mixup with λ ~ Beta(β, β) and a temperature β that is learned (Lin et al. 2021, arXiv:2011.14487).

    A model f(s, a) → [s'; r] is fitted to both ends of every batch by the mean squared error. How far a blend leaves
    the dynamics is d = mean over dimensions of (f(z_λ) − [λ f(z_i) + (1 − λ) f(z_j)])². β, 1 at first, follows the
    gradient of mean(log β·(d − τ)) over the blended rows and is clamped to (0, 1]: d > τ lowers β, so that λ hugs the
    ends; rows that stayed their anchors say nothing. One update of each per batch, after its rows were made.

    Numbers go into the model as they are stored. Its first weights come from `rng`. Everything learned is in the state.

    Args:
        threshold: τ > 0, in squared units of [s'; r].
        lr: Learning rate of the model and of β, both by Adam.
        hiddens: Widths of the hidden layers of the model.
        prob_interpolation: Probability with which a row is blended at all.
        termination_fn: ``(s, a, s') -> (n,) bool``; see `Mixup`.
        interp_decay: What that probability loses over the run.

    Raises:
        ValueError: When an argument is out of range.
    """

    independent_rows = False  # what is learned from one batch shapes the next

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
        self.threshold, self.lr, self.hiddens = float(threshold), float(lr), tuple(hiddens)
        self.fit: DynamicsModel | None = None

    @property
    def temperature(self) -> float:
        """β now."""
        return self.beta.alpha

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        made = super().__call__(anchors, neighbors, rng)
        mix = made.mix
        assert mix is not None
        partners = self.partners(neighbors)
        ends, targets = (
            [features(anchors).float(), features(partners).float()],
            torch.cat([outcomes(anchors), outcomes(partners)]),
        )
        if self.fit is None:
            sizes = [ends[0].shape[1], *self.hiddens, targets.shape[1]]
            self.fit = DynamicsModel(sizes, self.lr, int(rng.integers(2**62)), targets.device)
        blended = (mix < 1) & (ends[0] != ends[1]).any(dim=1)
        distances = self.fit.learn(torch.cat(ends), targets, mix.float())[blended]
        if len(distances):
            self.beta.alpha = self.fit.update_temperature(float(distances.mean()) - self.threshold)
        return made

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict() | {"temperature": self.temperature}
        return state | ({"fit": self.fit.state()} if self.fit is not None else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.beta.alpha = float(state["temperature"])
        self.fit = None
        if "fit" in state:
            self.fit = DynamicsModel([int(size) for size in state["fit"]["sizes"]], self.lr)
            self.fit.load(state["fit"])


class DynamicsModel:
    """The model of the dynamics and the temperature, each with its Adam.

    Args:
        sizes: Widths of the model from [s; a] to [s'; r].
        lr: Learning rate of both.
        seed: Of the first weights.
        device: Torch device.
    """

    def __init__(self, sizes: Sequence[int], lr: float, seed: int = 0, device: torch.device | None = None):
        self.sizes, self.lr = list(sizes), lr
        with torch.random.fork_rng(devices=[]):  # the caller's generator stays as it was
            torch.default_generator.manual_seed(seed)
            self.model = MLP(self.sizes).to(device)
        self.beta = nn.Parameter(torch.ones((), device=device))
        self._optimize()

    def _optimize(self) -> None:
        self.optimizers = [FastAdam(self.model.parameters(), self.lr), FastAdam([self.beta], self.lr)]

    def learn(self, inputs: Tensor, targets: Tensor, mix: Tensor) -> Tensor:
        """Step the model f.

        Args:
            inputs: z of n anchors, then of their n partners ``(2n, d)``.
            targets: [s'; r] that these led to ``(2n, e)``.
            mix: λ ``(n,)``.

        Returns:
            How far f, before the step, leaves the line between anchor and partner at λ, ``(n,)``.
        """
        with torch.enable_grad():
            given = self.model(inputs)
            gradients = torch.autograd.grad(nn.functional.mse_loss(given, targets), list(self.model.parameters()))
        with torch.no_grad():
            share = mix.unsqueeze(1)
            (mine, theirs), (here, there) = inputs.chunk(2), given.chunk(2)
            between, straight = torch.lerp(theirs, mine, share), torch.lerp(there, here, share)
            distances = (self.model(between) - straight).square().mean(dim=1)
        for parameter, gradient in zip(self.model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        self.optimizers[0].apply()
        return distances

    def update_temperature(self, excess: float) -> float:
        """Step β on mean(log β·(d − τ)), whose gradient is `excess` / β; the new β."""
        self.beta.grad = torch.full_like(self.beta, excess) / self.beta.detach()
        self.optimizers[1].apply()
        with torch.no_grad():
            self.beta.clamp_(LOWEST, 1.0)
        return float(self.beta.detach())

    def _parameters(self) -> list[list[nn.Parameter]]:
        return [list(self.model.parameters()), [self.beta]]

    def state(self) -> dict[str, Any]:
        """Return weights, β and what Adam remembers; arrays share memory."""
        memories = []
        for optimizer, parameters in zip(self.optimizers, self._parameters(), strict=True):
            kept = [optimizer.state.get(parameter, {}) for parameter in parameters]
            memories.append([dict(entry) for entry in kept])
        weights = [[parameter.data for parameter in group] for group in self._parameters()]
        return {"sizes": self.sizes, "weights": weights, "adam": memories}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        for group, weights in zip(self._parameters(), state["weights"], strict=True):
            for parameter, values in zip(group, weights, strict=True):
                parameter.data = as_tensor(values).clone()
        self._optimize()
        for optimizer, parameters, kept in zip(self.optimizers, self._parameters(), state["adam"], strict=True):
            for parameter, entry in zip(parameters, kept, strict=True):
                if entry:
                    optimizer.state[parameter] = {name: as_tensor(value).clone() for name, value in entry.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {"lr": self.lr, "state": self.state()}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__init__(saved["state"]["sizes"], saved["lr"])  # type: ignore[misc]
        self.load(saved["state"])


def outcomes(rows: Transitions) -> Tensor:
    """Return [s'; r] of rows, float32 ``(n, d)``."""
    return torch.cat([*flat_parts(rows.next_obs, 1), rows.rewards.unsqueeze(1)], dim=1).float()
