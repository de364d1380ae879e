"""m fully connected networks of one shape, all of them in one batched product per layer, each with rows of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

DECAYS = (2.5e-5, 5e-5, 7.5e-5, 1e-4)
"""Weight decay of the first, the second, all further hidden and the last layer (Janner et al. 2019)."""
MAX_LOG_VARIANCE, MIN_LOG_VARIANCE = 0.5, -10.0
"""What log variances are softly clamped to at first."""


class Networks:
    """Parameters of m networks with SiLU between layers, and their passes, the backward one written out.

    Weights start as in MBPO's code: normal with deviation 1/(2√fan_in), redrawn beyond two of these; biases at 0.

    Args:
        members: m.
        sizes: Widths from the input to the output.
        rng: Draws the weights.
        bounds: Numbers d of log variances that have learned bounds; 0 for none.
        dropout: Probability with which units of all hidden layers but the first are left out while learning.
        device: Of the parameters.

    Attributes:
        weights: ``(m, in, out)`` of every layer.
        biases: ``(m, 1, out)`` of every layer.
        bounds: Largest and smallest log variances ``(m, 1, d)``, or nothing.
    """

    def __init__(
        self,
        members: int,
        sizes: Sequence[int],
        rng: np.random.Generator,
        bounds: int = 0,
        dropout: float = 0.0,
        device: str | torch.device = "cpu",
    ):
        self.sizes, self.dropout = tuple(sizes), dropout
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        self.weights = [
            _truncated_normal((members, *shape), 0.5 / shape[0] ** 0.5, generator).to(device)
            for shape in pairwise(sizes)
        ]
        self.biases = [torch.zeros((members, 1, width), device=device) for width in sizes[1:]]
        limits = (MAX_LOG_VARIANCE, MIN_LOG_VARIANCE) if bounds else ()
        self.bounds = [torch.full((members, 1, bounds), limit, device=device) for limit in limits]

    def __len__(self) -> int:
        return len(self.weights[0])

    @property
    def tensors(self) -> list[Tensor]:
        """Every parameter, the member first."""
        return [*self.weights, *self.biases, *self.bounds]

    def some(self, members: Tensor) -> Networks:
        """Return copies of some of the networks, by their numbers ``(k,)``."""
        made = object.__new__(Networks)
        made.sizes, made.dropout = self.sizes, self.dropout
        for name in ("weights", "biases", "bounds"):
            setattr(made, name, [values.index_select(0, members) for values in getattr(self, name)])
        return made

    def put(self, members: Tensor, others: Sequence[Tensor]) -> None:
        """Take the parameters of other networks for `members` ``(k,)``, in the order of `tensors`."""
        for mine, values in zip(self.tensors, others, strict=True):
            mine[members] = values

    def decays(self) -> list[float]:
        """Return the weight decay of every tensor, in the order of `tensors`; that of biases and bounds is 0."""
        last = len(self.weights) - 1
        own = [DECAYS[3] if i == last else DECAYS[min(i, 2)] for i in range(last + 1)]
        return own + [0.0] * (len(self.tensors) - len(own))

    def forward(self, rows: Tensor, dropped: Sequence[Tensor | None] | None = None) -> Pass:
        """Run a forward pass.

        Args:
            rows: ``(m, n, in)``, or ``(n, in)`` that all networks see.
            dropped: Of every hidden layer the factors ``(m, n, width)``, or None; see `draw_dropped`.
        """
        return Pass(self, rows.expand(len(self), *rows.shape) if rows.dim() == 2 else rows, dropped)

    def draw_dropped(self, rows: int, rng: torch.Generator) -> list[Tensor | None] | None:
        """Draw factors 0 or 1/(1 − p) ``(m, rows, width)`` for every hidden layer but the first; None without dropout.

        Args:
            rows: n, of each network.
            rng: Source of randomness on the device of the parameters.
        """
        if not self.dropout:
            return None
        kept = 1.0 - self.dropout
        drawn: list[Tensor | None] = [None]
        for width in self.sizes[2:-1]:
            mask = torch.empty((len(self), rows, width), device=self.weights[0].device)
            drawn.append(mask.bernoulli_(kept, generator=rng).div_(kept))
        return drawn

    def of_member(self, member: int, rows: Tensor) -> Tensor:
        """Return the outputs ``(n, out)`` of one network for rows ``(n, in)``."""
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            rows = torch.addmm(bias[member], rows, weight[member])
            rows = rows if i == last else functional.silu(rows, inplace=True)
        return rows

    def state_dict(self) -> dict[str, Any]:
        """Return the parameters; the arrays share memory."""
        return {str(i): values.numpy(force=True) for i, values in enumerate(self.tensors)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the parameters of a state."""
        for i, values in enumerate(self.tensors):
            values.copy_(torch.as_tensor(np.asarray(state[str(i)])))


class Pass:
    """A forward pass of all networks, kept for its backward pass.

    Args:
        networks: Whose.
        rows: ``(m, n, in)``.
        dropped: Factors of every hidden layer, or None.

    Attributes:
        outputs: ``(m, n, out)``.
    """

    def __init__(self, networks: Networks, rows: Tensor, dropped: Sequence[Tensor | None] | None = None):
        self.networks, self.dropped = networks, dropped
        self._inputs, self._sums = [rows], []
        last = len(networks.weights) - 1
        for i, (weight, bias) in enumerate(zip(networks.weights, networks.biases, strict=True)):
            sums = torch.baddbmm(bias, self._inputs[-1], weight)
            if i == last:
                self.outputs = sums
                break
            self._sums.append(sums)
            active = functional.silu(sums)
            factors = None if dropped is None else dropped[i]
            self._inputs.append(active if factors is None else active.mul_(factors))

    def backward(self, gradients: Tensor) -> list[Tensor]:
        """Return the gradients of weights and then of biases, for those of the outputs ``(m, n, out)``."""
        weights = self.networks.weights
        of_weights: list[Tensor] = []
        of_biases: list[Tensor] = []
        for i in range(len(weights) - 1, -1, -1):
            of_weights.append(torch.bmm(self._inputs[i].mT, gradients))
            of_biases.append(gradients.sum(dim=1, keepdim=True))
            if i:
                gradients = torch.bmm(gradients, weights[i].mT)
                factors = None if self.dropped is None else self.dropped[i - 1]
                gradients = gradients if factors is None else gradients.mul_(factors)
                gradients = torch.ops.aten.silu_backward(gradients, self._sums[i - 1])
        return of_weights[::-1] + of_biases[::-1]


def _truncated_normal(shape: tuple[int, ...], std: float, rng: torch.Generator) -> Tensor:
    """Draw normal numbers, those beyond two deviations anew."""
    drawn = torch.randn(shape, generator=rng)
    while (beyond := drawn.abs() > 2).any():
        drawn[beyond] = torch.randn(int(beyond.sum()), generator=rng)
    return drawn * std
