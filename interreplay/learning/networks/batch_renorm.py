"""Batch renormalization (Ioffe 2017, arXiv:1702.03275), and stacked networks with it before every layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from interreplay.learning.networks.batched_layers import Networks, affine
from interreplay.learning.networks.between_layers import Dropped
from interreplay.learning.networks.layers import BatchedMLP


class BatchRenorm(nn.Module):
    """Batch renormalization of m networks: y = scale·x̂ + bias.

    In a training pass, x̂ is normalized by the batch, otherwise by the running statistics.

    With the mean μ_B and the deviation σ_B = √(var_B + ε) of a batch and the running μ and σ, a training pass gives
    x̂ = (x − μ_B)/σ_B·r + d, r = σ_B/σ within [1/r_max, r_max] and d = (μ_B − μ)/σ within ±d_max without a gradient, and
    then moves the running mean and variance a `share` of the way. During warm-up r = 1 and d = 0: batch normalization.
    Variances are divided by n, as in CrossQ's published code.

    Attributes:
        share: Weight of a batch's statistics in each update of the running statistics.
        mean: Running mean ``(m, width)``.
        variance: Running variance ``(m, width)``.
    """

    share = 0.01
    r_max = 3.0
    d_max = 5.0
    eps = 1e-3
    mean: Tensor
    variance: Tensor

    def __init__(self, count: int, width: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(count, width))
        self.bias = nn.Parameter(torch.zeros(count, width))
        self.register_buffer("mean", torch.zeros(count, width))
        self.register_buffer("variance", torch.ones(count, width))

    @torch.no_grad()
    def reset(self) -> None:
        """Reset parameters and statistics."""
        self.scale.fill_(1.0)
        self.bias.fill_(0.0)
        self.variance.fill_(1.0)
        self.mean.fill_(0.0)

    def normalize_by_running(self, rows: Tensor, network: int, frozen: bool = False) -> Tensor:
        """Return rows ``(n, width)`` of one network by the running statistics; `frozen` makes parameters constants."""
        scale = self.scale[network]
        bias = self.bias[network]
        if frozen:
            scale = scale.detach()
            bias = bias.detach()
        return nn.functional.batch_norm(rows, self.mean[network], self.variance[network], scale, bias, eps=self.eps)

    def training_pass(self, rows: Tensor, network: int, warmed_up: Tensor) -> Tensor:
        """Return rows ``(n, width)`` of one network normalized by their own statistics; update the running ones.

        There are at least 2 rows; `warmed_up` ``()`` is a boolean.
        """
        scale = self.scale[network]
        bias = self.bias[network]
        with torch.no_grad():
            mean, variance = torch.batch_norm_update_stats(rows.detach(), None, None, 0.0)
            running_mean = self.mean[network]
            running_variance = self.variance[network]
            deviation = (running_variance + self.eps).sqrt()
            r = ((variance + self.eps).sqrt() / deviation).clamp(1.0 / self.r_max, self.r_max)
            d = ((mean - running_mean) / deviation).clamp(-self.d_max, self.d_max)
            running_mean.lerp_(mean, self.share)
            running_variance.lerp_(variance, self.share)
            r = torch.where(warmed_up, r, 1.0)
            d = torch.where(warmed_up, d, 0.0)
        bias = bias + scale * d
        scale = scale * r
        return nn.functional.batch_norm(rows, None, None, scale, bias, training=True, eps=self.eps)


class RenormedMLP(BatchedMLP):
    """m networks as in `BatchedMLP` with a `BatchRenorm` before every layer: of the input and of every activation.

    Args:
        count: Number of networks m.
        sizes: Widths from the input to the output.
        warm_up: Training passes during which batches are normalized by their own statistics alone.

    Attributes:
        norms: Normalization before each layer.
        trained: Number of training passes so far.
    """

    norms: Sequence[BatchRenorm]
    trained: Tensor

    def __init__(self, count: int, sizes: Sequence[int], warm_up: int):
        super().__init__(count, sizes)
        self.norms = nn.ModuleList(BatchRenorm(count, size) for size in sizes[:-1])  # type: ignore[assignment]
        self.warm_up = warm_up
        self.register_buffer("trained", torch.zeros((), dtype=torch.int64))

    def reset(self, rng: torch.Generator | None = None) -> None:
        super().reset(rng)
        if hasattr(self, "norms"):  # False during construction
            self.trained.fill_(0)
            for norm in self.norms:
                norm.reset()

    def outputs(
        self,
        rows: Tensor | Sequence[Tensor],
        dropped: Dropped | None = None,
        networks: Networks | None = None,
        frozen: bool = False,
        training: bool = False,
    ) -> Tensor:
        """Return outputs ``(m, n, sizes[-1])`` of rows ``(n, sizes[0])``, differentiated by autograd alone.

        See `BatchedMLP.outputs` for the arguments; `dropped` is unused, and `training` changes the running statistics.
        """
        if not isinstance(rows, Tensor):
            rows = torch.cat(list(rows), dim=1)
        warmed_up = self.trained >= self.warm_up
        which = range(self.count) if networks is None else networks
        found = torch.stack([self._renormalize(network, rows, training, warmed_up, frozen) for network in which])
        self.trained += int(training)
        return found

    def _renormalize(self, network: int, rows: Tensor, training: bool, warmed_up: Tensor, frozen: bool) -> Tensor:
        """Return the outputs ``(n, sizes[-1])`` of one network; arguments as in `outputs`."""
        last = len(self.weights) - 1
        activation = getattr(torch, self.activation)
        for i, norm in enumerate(self.norms):
            weight = self.weights[i][network]
            bias = self.biases[i][network]
            if frozen:
                weight = weight.detach()
                bias = bias.detach()
            rows = (
                norm.training_pass(rows, network, warmed_up)
                if training
                else norm.normalize_by_running(rows, network, frozen)
            )
            rows = affine(rows, weight, bias, self.matrix_dtype if 0 < i < last else None)
            if i < last:
                rows = activation(rows)
        return rows
