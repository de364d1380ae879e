"""Networks of the off-policy algorithms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from interreplay.learning.fast.batched_layers import affine
from interreplay.learning.fast.passes import Passes
from interreplay.learning.policies import POLICY_OUTPUT, ContinuousPolicy
from interreplay.learning.squashed_gaussian import LOG_STD_RANGE, SquashedGaussianSample
from interreplay.learning.update import normal

MATRIX_DTYPES = {"float32": None, "bfloat16": torch.bfloat16}
"""Types in which matrices between hidden layers may be multiplied, by name; None leaves them as they are."""


class BatchedMLP(nn.Module):
    """m fully connected networks of one shape with ReLU, or another activation, between layers.

    Weights start as those of `nn.Linear`: uniform within ±1/√fan_in.

    Args:
        count: Number of networks m.
        sizes: Widths from the input to the output.

    Attributes:
        matrix_dtype: Of the products between hidden layers, None for that of the parameters.
        activation: Name of the function between layers, "relu" or "tanh".
        passes: Passes without autograd.
    """

    matrix_dtype: torch.dtype | None = None
    activation = "relu"

    def __init__(self, count: int, sizes: Sequence[int]):
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in zip(sizes[:-1], sizes[1:], strict=True):
            bound = 1.0 / math.sqrt(fan_in)
            self.weights.append(torch.empty(count, fan_in, fan_out).uniform_(-bound, bound))
            self.biases.append(torch.empty(count, 1, fan_out).uniform_(-bound, bound))
        self.count = count
        self.passes = Passes(self)

    def outputs(self, rows: Tensor) -> Tensor:
        """Return outputs ``(m, n, sizes[-1])`` of rows ``(n, sizes[0])``, by autograd where gradients are on."""
        if not torch.is_grad_enabled():
            return self.passes.run(rows).outputs
        return torch.stack([self._outputs_of(network, rows) for network in range(self.count)])

    def _outputs_of(self, network: int, rows: Tensor) -> Tensor:
        """Return outputs ``(n, sizes[-1])`` of one network."""
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            dtype = self.matrix_dtype if 0 < i < last else None
            rows = affine(rows, weight[network], bias[network], dtype)
            rows = getattr(torch, self.activation)(rows) if i < last else rows
        return rows


class MLP(BatchedMLP):
    """One such network.

    Args:
        sizes: Widths from the input to the output.
    """

    def __init__(self, sizes: Sequence[int]):
        super().__init__(1, sizes)

    def forward(self, rows: Tensor) -> Tensor:
        """Map ``(n, sizes[0])`` to ``(n, sizes[-1])``."""
        return self.outputs(rows).squeeze(0)


class Critics(BatchedMLP):
    """m critics Q(s, a).

    Args:
        count: Number of critics m.
        inputs: Numbers in [s; a].
        hiddens: Widths of the hidden layers.
    """

    def __init__(self, count: int, inputs: int, hiddens: Sequence[int]):
        super().__init__(count, [inputs, *hiddens, 1])

    def forward(self, state_actions: Tensor) -> Tensor:
        """Return Q-values ``(m, n)`` of rows [s; a] ``(n, inputs)``."""
        return self.outputs(state_actions).squeeze(-1)


class GaussianActor(ContinuousPolicy):
    """A Gaussian squashed by tanh into (−1, 1), as SAC's policy (Haarnoja et al. 2018, arXiv:1801.01290, appendix C).

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers.
    """

    stochastic, gaussian = True, True

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int]):
        super().__init__()
        self.body, self.size = MLP([inputs, *hiddens, 2 * actions]), actions

    def forward(self, obs: Tensor, noise: Tensor) -> SquashedGaussianSample:
        """Sample actions ``(n, actions)`` with their log density for standard normal `noise` of their shape."""
        return SquashedGaussianSample(self.body(obs), noise)

    def output(self, obs: Tensor) -> Tensor:
        """Return [mean; log standard deviation] ``(n, 2·actions)`` before squashing and clamping."""
        return self.body.outputs(obs)[0]

    def mode(self, output: Tensor) -> Tensor:
        return torch.tanh(output.chunk(2, dim=-1)[0])

    def draw(self, output: Tensor, rng: torch.Generator) -> Tensor:
        mean, log_std = output.chunk(2, dim=-1)
        return torch.tanh(mean + log_std.clamp(*LOG_STD_RANGE).exp() * normal(mean, rng))

    def record(self, output: Tensor) -> dict[str, Tensor]:
        """Return [mean; log standard deviation] ``(n, 2·actions)`` before the squashing."""
        mean, log_std = output.chunk(2, dim=-1)
        return {POLICY_OUTPUT: torch.cat([mean, log_std.clamp(*LOG_STD_RANGE)], dim=-1)}

    def record_random(self, count: int) -> dict[str, Tensor]:
        """Return mean and log standard deviation of uniform actions."""
        row = torch.tensor([0.0, -0.5 * math.log(3.0)]).repeat_interleave(self.size)
        return {POLICY_OUTPUT: row.expand(count, -1)}


@torch.no_grad()
def polyak(targets: list[Tensor], sources: list[Tensor], tau: float) -> None:
    """Move parameters a share `tau` of the way to others."""
    torch._foreach_lerp_(targets, sources, tau)
