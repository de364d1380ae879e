"""Networks of the off-policy algorithms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from interreplay.learning.batched_layers import BatchedLayers
from interreplay.learning.squashed_gaussian import LOG_STD_RANGE, SquashedGaussian


class MLP(nn.Module):
    """Fully connected layers with ReLU between them.

    Args:
        sizes: Widths from the input to the output.
    """

    def __init__(self, sizes: Sequence[int]):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes[:-1], sizes[1:], strict=True))

    def forward(self, x: Tensor) -> Tensor:
        """``(n, sizes[0])`` to ``(n, sizes[-1])``."""
        for layer in self.layers[:-1]:
            x = torch.relu_(layer(x))
        return self.layers[-1](x)


class Critics(nn.Module):
    """m critics Q(s, a) of one shape, each layer of all m in one batched product.

    Weights start as those of `nn.Linear`: uniform within ±1/√fan_in.

    Args:
        count: Number of critics m.
        inputs: Numbers in [s; a].
        hiddens: Widths of the hidden layers.
    """

    def __init__(self, count: int, inputs: int, hiddens: Sequence[int]):
        super().__init__()
        sizes = [inputs, *hiddens, 1]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in zip(sizes[:-1], sizes[1:], strict=True):
            bound = 1.0 / math.sqrt(fan_in)
            self.weights.append(torch.empty(count, fan_in, fan_out).uniform_(-bound, bound))
            self.biases.append(torch.empty(count, 1, fan_out).uniform_(-bound, bound))
        self.count = count

    def forward(self, state_actions: Tensor) -> Tensor:
        """Q-values ``(m, n)`` of rows [s; a] ``(n, inputs)``."""
        return BatchedLayers.apply(state_actions, *self.weights, *self.biases)

    def fixed(self, state_actions: Tensor, j: int | slice = slice(None)) -> Tensor:
        """The same of all critics, or of the j-th alone ``(n,)``, for gradients of the rows only."""
        which = slice(j, j + 1) if isinstance(j, int) else j
        parameters = (parameter.detach()[which] for parameter in (*self.weights, *self.biases))
        values = BatchedLayers.apply(state_actions, *parameters)
        return values.squeeze(0) if isinstance(j, int) else values


class GaussianActor(nn.Module):
    """A Gaussian squashed by tanh into (−1, 1), as SAC's policy (Haarnoja et al. 2018, arXiv:1801.01290, appendix C).

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers.
    """

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int]):
        super().__init__()
        self.body = MLP([inputs, *hiddens, 2 * actions])

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log standard deviation ``(n, actions)`` before the squashing."""
        mean, log_std = self.body(obs).chunk(2, dim=-1)
        return mean, log_std.clamp(*LOG_STD_RANGE)

    def distribution(self, obs: Tensor) -> Tensor:
        """[mean; log standard deviation] ``(n, 2·actions)`` before the squashing."""
        return torch.cat(self(obs), dim=-1)

    def act(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        """Actions ``(n, actions)`` for standard normal `noise` ``(n, actions)``, or the mode for None."""
        mean, log_std = self(obs)
        return torch.tanh(mean if noise is None else mean + log_std.exp() * noise)

    def sample(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions ``(n, actions)`` and their log density ``(n,)`` for standard normal `noise` ``(n, actions)``."""
        return SquashedGaussian.apply(self.body(obs), noise)


def polyak(targets: nn.Module, sources: nn.Module, tau: float) -> None:
    """Move the parameters of `targets` a share `tau` of the way to those of `sources`."""
    with torch.no_grad():
        torch._foreach_lerp_(list(targets.parameters()), list(sources.parameters()), tau)
