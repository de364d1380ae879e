"""Networks of the off-policy algorithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from interreplay.learning.dropout import Dropout, Dropped, left_out
from interreplay.learning.fast.batched_layers import Networks
from interreplay.learning.fast.passes import Passes
from interreplay.learning.fast.products import affine
from interreplay.learning.policies import POLICY_OUTPUT, ContinuousPolicy
from interreplay.learning.squashed_gaussian import LOG_STD_RANGE, SquashedGaussianSample
from interreplay.learning.update import normal

MATRIX_DTYPES = {"float32": None, "bfloat16": torch.bfloat16}
"""Types in which matrices between hidden layers may be multiplied, by name; None leaves them as they are."""


class BatchedMLP(nn.Module):
    """m fully connected networks of one shape with ReLU, or another activation, between layers.

    Weights start as those of `nn.Linear`: uniform within ±1/√fan_in. Between a hidden layer and its activation there
    may be dropout, then layer normalization (Ba et al. 2016, arXiv:1607.06450).

    Args:
        count: Number of networks m.
        sizes: Widths from the input to the output.
        layer_norm: Whether hidden layers are normalized.
        dropout: Probability p with which a pass that `draw_dropped` was called for leaves out hidden units.

    Attributes:
        matrix_dtype: Of the products between hidden layers, None for that of the parameters.
        activation: Name of the function between layers, "relu" or "tanh".
        passes: Passes without autograd.
    """

    matrix_dtype: torch.dtype | None = None
    activation = "relu"

    def __init__(self, count: int, sizes: Sequence[int], layer_norm: bool = False, dropout: float = 0.0):
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in pairwise(sizes):
            self.weights.append(torch.empty(count, fan_in, fan_out))
            self.biases.append(torch.empty(count, 1, fan_out))
        self.scales, self.shifts = nn.ParameterList(), nn.ParameterList()
        for width in sizes[1:-1] if layer_norm else ():
            self.scales.append(torch.empty(count, 1, width))
            self.shifts.append(torch.empty(count, 1, width))
        self.count, self.dropout, self._draws = count, dropout, Dropout(dropout, sizes[1:-1])
        self.reset()
        self.passes = Passes(self)

    @torch.no_grad()
    def reset(self, rng: torch.Generator | None = None) -> None:
        """Draw all parameters anew.

        Args:
            rng: Source of randomness on their device; None for PyTorch's own, as modules are made with.
        """
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = 1.0 / math.sqrt(weight.shape[1])
            weight.uniform_(-bound, bound, generator=rng)
            bias.uniform_(-bound, bound, generator=rng)
        for scale, shift in zip(self.scales, self.shifts, strict=True):
            scale.fill_(1.0)
            shift.fill_(0.0)

    def draw_dropped(self, rows: Tensor, rng: torch.Generator, networks: int | None = None) -> Dropped | None:
        """Draw the hidden units that a pass of as many rows leaves out; None, and nothing drawn, without dropout.

        Args:
            rows: ``(n, ...)``.
            rng: Source of randomness.
            networks: How many of the networks run; all for None.
        """
        if not self.dropout:
            return None
        return self._draws.draw(self.count if networks is None else networks, len(rows), rng)

    def outputs(self, rows: Tensor, dropped: Dropped | None = None, networks: Networks | None = None) -> Tensor:
        """Return outputs ``(m, n, sizes[-1])`` of rows ``(n, sizes[0])``, by autograd where gradients are on.

        Args:
            rows: What all networks see.
            dropped: Hidden units that are left out, of each of the networks that run; None for none.
            networks: Those that run; all m for None.
        """
        if not torch.is_grad_enabled():
            return self.passes.run(rows, dropped, networks).outputs
        which = range(self.count) if networks is None else networks
        nothing = [None] * len(self.weights)
        return torch.stack(
            [self._outputs_of(j, rows, nothing if dropped is None else dropped[i]) for i, j in enumerate(which)]
        )

    def _outputs_of(self, network: int, rows: Tensor, dropped: Sequence[Tensor | None]) -> Tensor:
        """Return outputs ``(n, sizes[-1])`` of one network."""
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            dtype = self.matrix_dtype if 0 < i < last else None
            rows = affine(rows, weight[network], bias[network], dtype)
            if i == last:
                break
            without = dropped[i]
            if without is not None:
                rows = left_out(rows, without) / (1.0 - self.dropout)
            if len(self.scales):
                rows = nn.functional.layer_norm(
                    rows, rows.shape[-1:], self.scales[i][network, 0], self.shifts[i][network, 0]
                )
            rows = getattr(torch, self.activation)(rows)
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
        layer_norm: Whether these are normalized.
        dropout: Probability with which their units are left out while learning.
    """

    def __init__(self, count: int, inputs: int, hiddens: Sequence[int], layer_norm: bool = False, dropout: float = 0.0):
        super().__init__(count, [inputs, *hiddens, 1], layer_norm, dropout)

    def forward(
        self, state_actions: Tensor, dropped: Dropped | None = None, networks: Networks | None = None
    ) -> Tensor:
        """Return Q-values ``(m, n)`` of rows [s; a] ``(n, inputs)``; arguments as those of `outputs`."""
        return self.outputs(state_actions, dropped, networks).squeeze(-1)


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
