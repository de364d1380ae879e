"""The layers of value networks, from encoded observations to N numbers per action: one stream, or two that duel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from interreplay.learning.networks import MLP
from interreplay.learning.noisy_layers import Factors, NoisyLinear

Noise = list[Factors]
"""The noise of one pass, that of each noisy layer."""


class ForwardRun(NamedTuple):
    """A pass that can be learned from.

    Attributes:
        outputs: ``(n, A, N)``, without a gradient.
        learn: Takes the gradients of a loss by these, and sets those of all parameters; rows that require a gradient
            get theirs.
    """

    outputs: Tensor
    learn: Callable[[Tensor], None]


class ValueLayers(nn.Module, ABC):
    """Layers from encoded observations ``(n, inputs)`` to ``(n, A, N)``.

    Attributes:
        noisy: Whether some have noise.
    """

    noisy = False

    @abstractmethod
    def outputs(self, rows: Tensor, noise: Noise | None = None) -> Tensor:
        """Return outputs ``(n, A, N)``; without noise where none is given."""

    @abstractmethod
    def run(self, rows: Tensor, noise: Noise | None = None) -> ForwardRun:
        """Run a pass to learn from."""

    def draw_noise(self, rng: torch.Generator) -> Noise | None:
        """Draw noise for one pass, None for layers without."""
        return None


class OneStream(ValueLayers):
    """A fully connected network, with gradients by hand.

    Args:
        inputs: Numbers in an encoded observation.
        actions: A.
        numbers: N.
        hiddens: Widths of the hidden layers.
    """

    def __init__(self, inputs: int, actions: int, numbers: int, hiddens: Sequence[int]):
        super().__init__()
        self.body, self._shape = MLP([inputs, *hiddens, actions * numbers]), (actions, numbers)

    def outputs(self, rows: Tensor, noise: Noise | None = None) -> Tensor:
        return self.body.outputs(rows)[0].unflatten(-1, self._shape)

    def run(self, rows: Tensor, noise: Noise | None = None) -> ForwardRun:
        done = self.body.passes.run(rows)

        def learn(gradients: Tensor) -> None:
            self.body.passes.learn(done, gradients.reshape(done.outputs.shape))

        return ForwardRun(done.outputs[0].unflatten(-1, self._shape), learn)


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
        found = [
            self._stream(rows, hidden, last, None if noise is None else noise[2 * i : 2 * i + 2])
            for i, (hidden, last) in enumerate(zip(self.hidden, self.last, strict=True))
        ]
        if len(found) == 1:
            return found[0]
        values, advantages = found
        return values + advantages - advantages.mean(dim=1, keepdim=True)

    def _stream(self, rows: Tensor, hidden: nn.Module, last: nn.Module, noise: Noise | None) -> Tensor:
        """Return outputs ``(n, A, N)`` or ``(n, 1, N)`` of one stream."""
        first, second = ((), ()) if noise is None else ((noise[0],), (noise[1],))
        return last(self._activate(hidden(rows, *first)), *second).unflatten(-1, (-1, self.numbers))

    def _activate(self, values: Tensor) -> Tensor:
        return getattr(torch, self.activation)(values)

    def run(self, rows: Tensor, noise: Noise | None = None) -> ForwardRun:
        with torch.enable_grad():
            outputs = self.outputs(rows, noise)

        def learn(gradients: Tensor) -> None:
            for parameter in self.parameters():
                parameter.grad = None
            outputs.backward(gradients)

        return ForwardRun(outputs.detach(), learn)

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
