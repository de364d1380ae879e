"""The layers of value networks, with one stream or with two dueling streams."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.networks.layers import MLP

Factors = tuple[Tensor, Tensor]
"""f(ε) of a layer's inputs ``(in,)`` and outputs ``(out,)``; their outer product is the noise of its weights."""
Noise = list[Factors]
"""The noise of each noisy layer in one pass."""


class NoisyLinear(nn.Module):
    """A linear layer with factorized Gaussian noise (Fortunato et al. 2018, arXiv:1706.10295).

    y = (µ_w + σ_w⊙ε_w)·x + µ_b + σ_b⊙ε_b, with ε_w = f(ε_out)·f(ε_in)ᵀ, ε_b = f(ε_out), f(x) = sgn(x)·√|x|. Noise is
    an argument of each pass. Initially, the means of weights and biases are uniform in ±1/√in, and σ is sigma0/√in.
    """

    def __init__(self, inputs: int, outputs: int, sigma0: float = 0.5):
        super().__init__()
        bound = 1.0 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma0 * bound))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma0 * bound))

    def draw(self, rng: torch.Generator) -> Factors:
        """Draw noise for one pass."""
        outputs, inputs = self.weight.shape
        both = torch.randn(inputs + outputs, generator=rng, device=self.weight.device, dtype=self.weight.dtype)
        both = both.sign() * both.abs().sqrt_()
        return both[:inputs], both[inputs:]

    def forward(self, rows: Tensor, noise: Factors | None = None) -> Tensor:
        """Map ``(n, in)`` to ``(n, out)``, with the same noise for all rows, or without noise."""
        if noise is None:
            return nn.functional.linear(rows, self.weight, self.bias)
        of_inputs, of_outputs = noise
        # One product takes half the time of two, one with the means and one with the noise.
        weight = torch.addcmul(self.weight, self.weight_sigma, of_outputs.unsqueeze(1) * of_inputs)
        bias = torch.addcmul(self.bias, self.bias_sigma, of_outputs)
        return nn.functional.linear(rows, weight, bias)


def linear(inputs: int, outputs: int, sigma0: float | None) -> nn.Module:
    """Return a linear layer, noisy unless `sigma0` is None."""
    return nn.Linear(inputs, outputs) if sigma0 is None else NoisyLinear(inputs, outputs, sigma0)


class ValueLayers(nn.Module, ABC):
    """Layers from encoded observations ``(n, inputs)`` to ``(n, A, N)``.

    Attributes:
        noisy: Whether some layers have noise.
        activation: Name of the function between layers.
    """

    noisy = False
    activation = "relu"

    @abstractmethod
    def outputs(self, rows: Tensor, noise: Noise | None = None) -> Tensor:
        """Return outputs ``(n, A, N)``; without noise if `noise` is None."""

    def draw_noise(self, rng: torch.Generator) -> Noise | None:
        """Draw noise for one pass; None for layers without noise."""
        return None

    def activate(self, values: Tensor) -> Tensor:
        """Apply the function between layers."""
        return getattr(torch, self.activation)(values)


class OneStream(ValueLayers):
    """A fully connected network; arguments as in `Streams`."""

    def __init__(self, inputs: int, actions: int, numbers: int, hiddens: Sequence[int], activation: str = "relu"):
        super().__init__()
        self.body = MLP([inputs, *hiddens, actions * numbers], in_numpy=True)
        self.body.activation = activation
        self._shape = (actions, numbers)

    def outputs(self, rows: Tensor, noise: Noise | None = None) -> Tensor:
        return self.body(rows).unflatten(-1, self._shape)


class Streams(ValueLayers):
    """Shared layers, then one stream, or two dueling streams: Q = V + A − mean of A over the actions.

    Each stream has its own hidden layer of the last width, as in Wang et al. 2016 (arXiv:1511.06581). With noise, both
    layers of each stream are noisy.

    Args:
        inputs: Width of an encoded observation.
        actions: Number of actions A.
        numbers: Outputs per action N.
        hiddens: Widths of the hidden layers; all but the last are shared.
        dueling: Whether there are two streams.
        sigma0: Initial scale of the noise; None for layers without noise.
        activation: Name of the function between layers.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        numbers: int,
        hiddens: Sequence[int],
        dueling: bool = True,
        sigma0: float | None = None,
        activation: str = "relu",
    ):
        super().__init__()
        self.noisy = sigma0 is not None
        self.numbers = numbers
        self.activation = activation
        widths = [inputs, *hiddens]
        self.shared = nn.ModuleList(map(nn.Linear, widths[:-2], widths[1:-1]))
        self.hidden = nn.ModuleList()
        self.last = nn.ModuleList()
        for out in (numbers, actions * numbers) if dueling else (actions * numbers,):
            self.hidden.append(linear(widths[-2], widths[-1], sigma0))
            self.last.append(linear(widths[-1], out, sigma0))

    def outputs(self, rows: Tensor, noise: Noise | None = None) -> Tensor:
        for layer in self.shared:
            rows = self.activate(layer(rows))
        found = []
        for i, (hidden, last) in enumerate(zip(self.hidden, self.last, strict=True)):
            if noise is None:
                values = last(self.activate(hidden(rows)))
            else:
                values = last(self.activate(hidden(rows, noise[2 * i])), noise[2 * i + 1])
            found.append(values.unflatten(-1, (-1, self.numbers)))
        if len(found) == 1:
            return found[0]
        values, advantages = found
        return values + advantages - advantages.mean(dim=1, keepdim=True)

    def draw_noise(self, rng: torch.Generator) -> Noise | None:
        if not self.noisy:
            return None
        layers: Any = chain.from_iterable(zip(self.hidden, self.last, strict=True))
        return [layer.draw(rng) for layer in layers]
