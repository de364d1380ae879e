"""The layers of value networks, from encoded observations to N numbers per action: one stream, or two that duel."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.networks.layers import MLP

Factors = tuple[Tensor, Tensor]
"""f(ε) of a layer's inputs ``(in,)`` and outputs ``(out,)``, whose products are the noise of its weights."""
Noise = list[Factors]
"""The noise of one pass, that of each noisy layer."""


class NoisyLinear(nn.Module):
    """A linear layer with factorized Gaussian noise (Fortunato et al. 2018, arXiv:1706.10295).

    y = (µ_w + σ_w⊙ε_w)·x + µ_b + σ_b⊙ε_b, with ε_w = f(ε_out)·f(ε_in)ᵀ, ε_b = f(ε_out), f(x) = sgn(x)·√|x|. Noise is
    an argument of each pass: the layer keeps none, and is quiet where none is given. Means start uniform within ±1/√in,
    sizes at sigma0/√in, for weights and for biases.

    Args:
        inputs: Numbers that come in.
        outputs: Numbers that come out.
        sigma0: Size of the noise at the start.
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
        """Map ``(n, in)`` to ``(n, out)``, all rows with the same noise, or with none."""
        if noise is None:
            return nn.functional.linear(rows, self.weight, self.bias)
        of_inputs, of_outputs = noise
        # One product with the weights of this pass takes half the time of one product each for means and sizes.
        weight = torch.addcmul(self.weight, self.weight_sigma, of_outputs.unsqueeze(1) * of_inputs)
        bias = torch.addcmul(self.bias, self.bias_sigma, of_outputs)
        return nn.functional.linear(rows, weight, bias)


class ValueLayers(nn.Module, ABC):
    """Layers from encoded observations ``(n, inputs)`` to ``(n, A, N)``.

    Attributes:
        noisy: Whether some have noise.
    """

    noisy = False

    @abstractmethod
    def outputs(self, rows: Tensor, noise: Noise | None = None) -> Tensor:
        """Return outputs ``(n, A, N)``; without noise where none is given."""

    def draw_noise(self, rng: torch.Generator) -> Noise | None:
        """Draw noise for one pass, None for layers without."""
        return None


class OneStream(ValueLayers):
    """A fully connected network.

    Args:
        inputs: Width of an encoded observation.
        actions: Number of actions A.
        numbers: Outputs per action N.
        hiddens: Widths of the hidden layers.
    """

    def __init__(self, inputs: int, actions: int, numbers: int, hiddens: Sequence[int]):
        super().__init__()
        self.body = MLP([inputs, *hiddens, actions * numbers], in_numpy=True)
        self._shape = (actions, numbers)

    def outputs(self, rows: Tensor, noise: Noise | None = None) -> Tensor:
        return self.body(rows).unflatten(-1, self._shape)


class Streams(ValueLayers):
    """Shared layers, then one stream, or two that duel: Q = V + A − mean of A over the actions, for each of N numbers.

    Each stream has a hidden layer of the last width of its own, as behind the convolutions of Wang et al. 2016
    (arXiv:1511.06581); with noise, the two layers of each stream have it.

    Args:
        inputs: Numbers in an encoded observation.
        actions: A.
        numbers: N.
        hiddens: Widths of the hidden layers; all but the last are shared.
        dueling: Whether there are two streams.
        sigma0: Size of the noise at the start, None for plain layers.
        activation: Name of the function between layers.

    Attributes:
        numbers: N.
        activation: As given.
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
        self.noisy, self.numbers, self.activation = sigma0 is not None, numbers, activation
        widths = [inputs, *hiddens]
        self.shared = nn.ModuleList(map(nn.Linear, widths[:-2], widths[1:-1]))
        outs = (numbers, actions * numbers) if dueling else (actions * numbers,)
        make = (lambda i, o: NoisyLinear(i, o, sigma0)) if sigma0 is not None else nn.Linear
        self.hidden = nn.ModuleList(make(widths[-2], widths[-1]) for _ in outs)
        self.last = nn.ModuleList(make(widths[-1], out) for out in outs)

    def outputs(self, rows: Tensor, noise: Noise | None = None) -> Tensor:
        for layer in self.shared:
            rows = self._activate(layer(rows))
        found = []
        for i, (hidden, last) in enumerate(zip(self.hidden, self.last, strict=True)):
            if noise is None:
                values = last(self._activate(hidden(rows)))
            else:
                values = last(self._activate(hidden(rows, noise[2 * i])), noise[2 * i + 1])
            found.append(values.unflatten(-1, (-1, self.numbers)))
        if len(found) == 1:
            return found[0]
        values, advantages = found
        return values + advantages - advantages.mean(dim=1, keepdim=True)

    def _activate(self, values: Tensor) -> Tensor:
        return getattr(torch, self.activation)(values)

    def draw_noise(self, rng: torch.Generator) -> Noise | None:
        if not self.noisy:
            return None
        pairs: Any = zip(self.hidden, self.last, strict=True)
        return [layer.draw(rng) for pair in pairs for layer in pair]


def make_layers(
    inputs: int,
    actions: int,
    numbers: int,
    hiddens: Sequence[int],
    dueling: bool = False,
    sigma0: float | None = None,
    activation: str = "relu",
) -> ValueLayers:
    """Return `OneStream` where nothing duels and nothing is noisy, else `Streams`, whose arguments these are."""
    if dueling or sigma0 is not None:
        return Streams(inputs, actions, numbers, hiddens, dueling, sigma0, activation)
    layers = OneStream(inputs, actions, numbers, hiddens)
    layers.body.activation = activation
    return layers
