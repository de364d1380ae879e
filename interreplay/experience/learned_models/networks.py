"""m fully connected networks of one shape, all of them in one batched product per layer, each with rows of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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
        matrix_dtype: In which matrices between hidden layers are multiplied; None for that of the parameters.

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
        matrix_dtype: torch.dtype | None = None,
    ):
        self.sizes, self.dropout, self.matrix_dtype = tuple(sizes), dropout, matrix_dtype
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
        made.sizes, made.dropout, made.matrix_dtype = self.sizes, self.dropout, self.matrix_dtype
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

    def forward(
        self, rows: Tensor, dropped: Sequence[Tensor | None] | None = None, memory: Workspace | None = None
    ) -> Pass:
        """Run a forward pass.

        Args:
            rows: ``(m, n, in)``, or ``(n, in)`` that all networks see.
            dropped: Of every hidden layer the factors ``(m, n, width)``, or None; see `draw_dropped`.
            memory: Of passes of as many rows; made anew for None.
        """
        return Pass(self, rows.expand(len(self), *rows.shape) if rows.dim() == 2 else rows, dropped, memory)

    def draw_dropped(self, rows: int, rng: torch.Generator) -> list[Tensor | None] | None:
        """Draw factors 0 or 1/(1 − p) ``(m, rows, width)`` for every hidden layer but the first; None without dropout.

        Args:
            rows: n, of each network.
            rng: Source of randomness on the device of the parameters.
        """
        if not self.dropout:
            return None
        like, shapes = self.weights[0], [(len(self), rows, width) for width in self.sizes[2:-1]]
        return [None, *(_factors(shape, self.dropout, like, rng) for shape in shapes)]

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


class Workspace:
    """Memory of passes of so many rows, used again by the next one: making it anew took a sixth of a step.

    Args:
        networks: Whose passes.
        rows: n, of each network.

    Attributes:
        dtypes: In which the matrices of every layer are multiplied.
        inputs: Of every layer but the first ``(m, n, in)``, in its type.
        sums: Of every layer ``(m, n, out)``, in its type.
    """

    def __init__(self, networks: Networks, rows: int):
        whole, last = networks.weights[0].dtype, len(networks.weights) - 1
        hidden = networks.matrix_dtype or whole
        self.rows, self.dtypes = rows, [whole if i in (0, last) else hidden for i in range(last + 1)]
        # Where neighboring layers differ in type, what goes from one to the other has a place in both.
        self.sums, self.active, self.gradients, self.inputs, self.arriving = ([] for _ in range(5))
        for i, width in enumerate(networks.sizes[1:]):
            make = partial(networks.weights[0].new_empty, (len(networks), rows, width))
            self.sums.append(make(dtype=self.dtypes[i]))
            if i < last:
                same = self.dtypes[i] == self.dtypes[i + 1]
                self.active.append(make(dtype=self.dtypes[i]))
                self.gradients.append(make(dtype=self.dtypes[i]))
                self.inputs.append(self.active[i] if same else make(dtype=self.dtypes[i + 1]))
                self.arriving.append(self.gradients[i] if same else make(dtype=self.dtypes[i + 1]))
        self.of_weights, self.of_biases = (
            [torch.empty_like(values) for values in part] for part in (networks.weights, networks.biases)
        )


class Pass:
    """A forward pass of all networks, kept for its backward pass.

    Args:
        networks: Whose.
        rows: ``(m, n, in)``.
        dropped: Factors of every hidden layer, or None.
        memory: In which; made anew for None.

    Attributes:
        outputs: ``(m, n, out)``.
    """

    def __init__(
        self,
        networks: Networks,
        rows: Tensor,
        dropped: Sequence[Tensor | None] | None = None,
        memory: Workspace | None = None,
    ):
        memory = Workspace(networks, rows.shape[1]) if memory is None else memory
        self.networks, self.dropped, self.memory, self._inputs = networks, dropped, memory, [rows, *memory.inputs]
        self._weights = [weight.to(dtype) for weight, dtype in zip(networks.weights, memory.dtypes, strict=True)]
        for i, (weight, bias) in enumerate(zip(self._weights, networks.biases, strict=True)):
            torch.baddbmm(bias.to(weight.dtype), self._inputs[i], weight, out=memory.sums[i])
            if i == len(memory.active):
                break
            torch.ops.aten.silu.out(memory.sums[i], out=memory.active[i])
            factors = None if dropped is None else dropped[i]
            if factors is not None:
                memory.active[i].mul_(factors)
            if memory.inputs[i] is not memory.active[i]:
                memory.inputs[i].copy_(memory.active[i])
        self.outputs = memory.sums[-1]

    def backward(self, gradients: Tensor) -> list[Tensor]:
        """Return the gradients of weights and then of biases, for those of the outputs ``(m, n, out)``."""
        memory = self.memory
        for i in range(len(self._weights) - 1, -1, -1):
            self._of_weight(i, gradients)
            torch.sum(gradients, dim=1, keepdim=True, dtype=memory.of_biases[i].dtype, out=memory.of_biases[i])
            if i:
                torch.bmm(gradients, self._weights[i].mT, out=memory.arriving[i - 1])
                gradients = memory.gradients[i - 1]
                if gradients is not memory.arriving[i - 1]:
                    gradients.copy_(memory.arriving[i - 1])
                factors = None if self.dropped is None else self.dropped[i - 1]
                if factors is not None:
                    gradients.mul_(factors)
                torch.ops.aten.silu_backward.grad_input(gradients, memory.sums[i - 1], grad_input=gradients)
        return [*memory.of_weights, *memory.of_biases]

    def _of_weight(self, layer: int, gradients: Tensor) -> None:
        into, inputs = self.memory.of_weights[layer], self._inputs[layer].mT
        if into.dtype == gradients.dtype:
            torch.bmm(inputs, gradients, out=into)
        else:
            into.copy_(torch.bmm(inputs, gradients))


def _factors(shape: tuple[int, ...], dropout: float, like: Tensor, rng: torch.Generator) -> Tensor:
    """Draw 0 with probability p, to within 2⁻¹⁶, else 1/(1 − p): four numbers of every 64 random bits.

    In less than half the time of PyTorch's Bernoulli numbers, which were a third of a deterministic model's step.
    """
    count = torch.Size(shape).numel()
    bits = torch.empty((count + 3) // 4, dtype=torch.int64, device=like.device)
    bits.random_(-(2**63), None, generator=rng)
    kept = bits.view(torch.int16)[:count].view(shape) >= int(dropout * 2**16) - 2**15
    return kept.to(like.dtype).mul_(1.0 / (1.0 - dropout))


def _truncated_normal(shape: tuple[int, ...], std: float, rng: torch.Generator) -> Tensor:
    """Draw normal numbers, those beyond two deviations anew."""
    drawn = torch.randn(shape, generator=rng)
    while (beyond := drawn.abs() > 2).any():
        drawn[beyond] = torch.randn(int(beyond.sum()), generator=rng)
    return drawn * std
