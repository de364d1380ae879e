"""Networks of the off-policy algorithms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from interreplay.learning.batched_layers import BatchedLayers, Networks, Pass
from interreplay.learning.squashed_gaussian import LOG_STD_RANGE, Draw


class Layers(nn.Module):
    """m fully connected networks of one shape with ReLU between layers; see `BatchedLayers`.

    Weights start as those of `nn.Linear`: uniform within ±1/√fan_in.

    Args:
        count: Number of networks m.
        sizes: Widths from the input to the output.

    Attributes:
        matrix_dtype: Of the products between hidden layers, None for that of the parameters.
    """

    matrix_dtype: torch.dtype | None = None

    def __init__(self, count: int, sizes: Sequence[int]):
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in zip(sizes[:-1], sizes[1:], strict=True):
            bound = 1.0 / math.sqrt(fan_in)
            self.weights.append(torch.empty(count, fan_in, fan_out).uniform_(-bound, bound))
            self.biases.append(torch.empty(count, 1, fan_out).uniform_(-bound, bound))
        self.count = count
        self._weights, self._biases = tuple(self.weights), tuple(self.biases)
        self._networks = Networks(self._weights, self._biases)
        self._firsts: dict[int, Networks] = {}
        self._gradients: Networks | None = None

    def outputs(self, rows: Tensor) -> Tensor:
        """Outputs ``(m, n, sizes[-1])`` of rows ``(n, sizes[0])``, by autograd where gradients are on."""
        if torch.is_grad_enabled():
            return BatchedLayers.apply(rows, self.matrix_dtype, *self._weights, *self._biases)
        return self.run(rows).outputs

    def run(self, rows: Tensor, first: int | None = None) -> Pass:
        """A forward pass, of the `first` networks alone where so many are named, for `learn` or its own `backward`."""
        if not self._networks.view(self._weights):
            self._networks, self._firsts, self._gradients = Networks(self._weights, self._biases), {}, None
        networks = self._networks
        if first is not None:
            if first not in self._firsts:
                self._firsts[first] = networks.first(first)
            networks = self._firsts[first]
        return Pass(rows, networks, self.matrix_dtype)

    def learn(self, made: Pass, gradients: Tensor) -> None:
        """Set the gradient of every parameter, in tensors that are used again the next time.

        Args:
            made: A pass of all networks. Rows that require a gradient get theirs by autograd.
            gradients: Of the loss by the outputs, ``(m, n, sizes[-1])``.
        """
        if self._gradients is None:
            self._gradients = self._networks.empty_like()
        of_rows = made.backward(gradients, self._gradients, slice(None) if made.rows.requires_grad else None)
        found = (*self._gradients.weights, *self._gradients.biases)
        for parameter, gradient in zip((*self._weights, *self._biases), found, strict=True):
            parameter.grad = gradient
        if of_rows is not None:
            made.rows.backward(of_rows)


class MLP(Layers):
    """One such network.

    Args:
        sizes: Widths from the input to the output.
    """

    def __init__(self, sizes: Sequence[int]):
        super().__init__(1, sizes)

    def forward(self, rows: Tensor) -> Tensor:
        """``(n, sizes[0])`` to ``(n, sizes[-1])``."""
        return self.outputs(rows).squeeze(0)


class Critics(Layers):
    """m critics Q(s, a).

    Args:
        count: Number of critics m.
        inputs: Numbers in [s; a].
        hiddens: Widths of the hidden layers.
    """

    def __init__(self, count: int, inputs: int, hiddens: Sequence[int]):
        super().__init__(count, [inputs, *hiddens, 1])

    def forward(self, state_actions: Tensor) -> Tensor:
        """Q-values ``(m, n)`` of rows [s; a] ``(n, inputs)``."""
        return self.outputs(state_actions).squeeze(-1)


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
        mean, log_std = self.body.outputs(obs)[0].chunk(2, dim=-1)
        return torch.tanh(mean if noise is None else mean + log_std.clamp(*LOG_STD_RANGE).exp() * noise)

    def sample(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions ``(n, actions)`` and their log density ``(n,)`` for standard normal `noise` ``(n, actions)``."""
        draw = Draw(self.body(obs), noise)
        return draw.actions, draw.log_probs


@torch.no_grad()
def polyak(targets: list[Tensor], sources: list[Tensor], tau: float) -> None:
    """Move parameters a share `tau` of the way to others."""
    torch._foreach_lerp_(targets, sources, tau)
