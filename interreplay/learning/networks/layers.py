"""Fully connected networks, several of one shape at a time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.errors import InterreplayWarning
from interreplay.learning.networks.batched_layers import BatchedLayers, ForwardPass, LayerViews, Networks, PassSettings
from interreplay.learning.networks.between_layers import Dropout, Dropped
from interreplay.learning.networks.small_layers import SmallLayers, SmallNetwork, is_small

MATRIX_DTYPES = {"float32": None, "bfloat16": torch.bfloat16}
"""Types of matrix products by name; None keeps the type of the parameters."""


def get_matrix_dtype(name: str) -> torch.dtype | None:
    """Return one of `MATRIX_DTYPES`, and warn if PyTorch only emulates products of this type here.

    On an AMD EPYC with AVX2 only, they made a step of SAC take 12 times as long as in float32.
    """
    mkldnn = torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    if name == "bfloat16" and not (mkldnn or torch.cuda.is_available()):
        warnings.warn(
            "matrices are multiplied in bfloat16, which this processor does not support; expect float32 to be faster",
            InterreplayWarning,
            stacklevel=2,
        )
    return MATRIX_DTYPES[name]


class BatchedMLP(nn.Module):
    """m fully connected networks of one shape.

    Weights are initialized as in `nn.Linear`: uniform within ±1/√fan_in. Between a hidden layer and its activation,
    there may be dropout followed by layer normalization (Ba et al. 2016, arXiv:1607.06450).

    Args:
        count: Number of networks m.
        sizes: Widths from the input to the output.
        layer_norm: Whether hidden layers are normalized.
        dropout: Probability p with which hidden units are dropped in passes that `draw_dropped` was called for.

    Attributes:
        matrix_dtype: Type of the products between hidden layers; None for the type of the parameters.
        pass_class: Class of the forward passes.
        activation: Name of the function between layers, "relu" or "tanh".
        plain: Whether autograd differentiates each operation, as `torch.func` requires.
    """

    matrix_dtype: torch.dtype | None = None
    activation = "relu"
    plain = False
    pass_class: type[ForwardPass] = ForwardPass

    def __init__(self, count: int, sizes: Sequence[int], layer_norm: bool = False, dropout: float = 0.0):
        super().__init__()
        self._set_parameters(count, list(pairwise(sizes)), sizes[1:-1] if layer_norm else (), dropout)

    def _set_parameters(
        self, count: int, layers: Sequence[tuple[int, int]], normalized: Sequence[int], dropout: float = 0.0
    ) -> None:
        """Create and draw the parameters, for widths of inputs and outputs per layer and of normalized layers."""
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for fan_in, fan_out in layers:
            self.weights.append(torch.empty(count, fan_in, fan_out))
            self.biases.append(torch.empty(count, 1, fan_out))
        self.scales = nn.ParameterList()
        self.shifts = nn.ParameterList()
        for width in normalized:
            self.scales.append(torch.empty(count, 1, width))
            self.shifts.append(torch.empty(count, 1, width))
        self.count = count
        self.dropout = dropout
        self._draws = Dropout(dropout, [fan_out for _, fan_out in layers[:-1]])
        self.parts = tuple(map(tuple, (self.weights, self.biases, self.scales, self.shifts)))
        self._views: LayerViews | None = None
        self.reset()

    @torch.no_grad()
    def reset(self, rng: torch.Generator | None = None) -> None:
        """Draw all parameters again; without `rng`, by PyTorch's global generator."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = 1.0 / math.sqrt(weight.shape[1])
            weight.uniform_(-bound, bound, generator=rng)
            bias.uniform_(-bound, bound, generator=rng)
        for scale, shift in zip(self.scales, self.shifts, strict=True):
            scale.fill_(1.0)
            shift.fill_(0.0)

    def last_parameters(self) -> list[nn.Parameter]:
        """Return weights and biases of the last layer."""
        return [self.weights[-1], self.biases[-1]]

    def draw_dropped(self, rows: Tensor, rng: torch.Generator, networks: int | None = None) -> Dropped | None:
        """Draw the units that a pass of these rows and number of networks drops; None without dropout."""
        if not self.dropout:
            return None
        return self._draws.draw(self.count if networks is None else networks, len(rows), rng)

    def outputs(
        self,
        rows: Tensor | Sequence[Tensor],
        dropped: Dropped | None = None,
        networks: Networks | None = None,
        frozen: bool = False,
    ) -> Tensor:
        """Return the outputs of all networks, differentiable where gradients are enabled.

        Args:
            rows: Inputs of all networks ``(n, sizes[0])``, or blocks of their columns ``(n, columns)``.
            dropped: Dropped hidden units of each network that runs; None without dropout.
            networks: Indices of the networks that run; None for all.
            frozen: Whether parameters are constants: only the rows receive gradients.

        Returns:
            ``(m, n, sizes[-1])``.
        """
        blocks = (rows,) if isinstance(rows, Tensor) else tuple(rows)
        plain = self.plain or torch.compiler.is_compiling()  # programs support neither `BatchedLayers` nor cached views
        views = self._views
        if self.plain:
            views = LayerViews((self.weights, self.biases, self.scales, self.shifts), detach=frozen)
        elif plain:
            views = LayerViews(self.parts, detach=frozen)
        elif views is None or not views.are_views(self.parts[0]):  # the parameters were moved
            self._views = views = LayerViews(self.parts)
        settings = PassSettings(
            self.pass_class,
            dtype=self.matrix_dtype,
            activation=self.activation,
            keep=1.0 - self.dropout,
            dropped=dropped,
            networks=networks,
            frozen=frozen,
        )
        if plain or not torch.is_grad_enabled():
            whole = blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1)
            return self.pass_class(whole, views, settings).forward(keep_inputs=False)
        if frozen:
            return BatchedLayers.apply(views, settings, len(blocks), *blocks)
        weights, biases, scales, shifts = self.parts
        return BatchedLayers.apply(views, settings, len(blocks), *blocks, *weights, *biases, *scales, *shifts)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_views": None}  # views of a copy would not share its memory


class MLP(BatchedMLP):
    """One fully connected network.

    Args:
        sizes: Widths from the input to the output.
        in_numpy: Whether a small network on the processor runs in numpy, see `small_layers`.
    """

    def __init__(self, sizes: Sequence[int], in_numpy: bool = False):
        super().__init__(1, sizes)
        self.in_numpy = in_numpy
        self._small: SmallNetwork | None = None

    def forward(self, rows: Tensor) -> Tensor:
        """Map ``(n, sizes[0])`` to ``(n, sizes[-1])``."""
        small = self.small_network()
        if small is None:
            return self.outputs(rows).squeeze(0)
        if torch.is_grad_enabled():
            return SmallLayers.apply(small, rows, *self.weights, *self.biases)
        return torch.from_numpy(small.forward(rows.numpy())[-1])

    def small_network(self) -> SmallNetwork | None:
        """Return the network in numpy, or None if it does not run in numpy."""
        if not self.in_numpy or self.matrix_dtype is not None or torch.compiler.is_compiling():
            return None
        if self._small is None or not self._small.is_current(self.activation):
            weights, biases, *_ = self.parts
            self._small = SmallNetwork(weights, biases, self.activation) if is_small([*weights, *biases]) else None
        return self._small

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self._small = None  # the parameters can be on another device afterwards
        return super()._apply(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_small": None}
