"""Truncated quantile critics, TQC (Kuznetsov et al. 2020, arXiv:2005.04269)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.dropout import Dropped
from interreplay.learning.fast.batched_layers import Networks
from interreplay.learning.fast.tqc import FastTQCUpdate
from interreplay.learning.networks import BatchedMLP
from interreplay.learning.quantiles import TruncatedTargets, quantile_huber
from interreplay.learning.sac import Judged, PlainSACUpdate, SACNetworks
from interreplay.learning.soft_settings import TQCSettings
from interreplay.learning.update import SampleLike, mean_over_views, weighted_mean


class QuantileCritics(BatchedMLP):
    """Critics with a quantile of the return at (s, a) per output."""

    def forward(
        self, state_actions: Tensor, dropped: Dropped | None = None, networks: Networks | None = None
    ) -> Tensor:
        """Return Q-values ``(m, n)``, means of the quantiles; arguments as of `outputs`."""
        return self.outputs(state_actions, dropped, networks).mean(dim=-1)


class TQCNetworks(SACNetworks):
    """SAC's networks with `QuantileCritics`.

    Args:
        *shape: As of `SACNetworks`.
        n_quantiles: Quantiles of each critic, q.
        **options: As of `SACNetworks`.
    """

    def __init__(self, *shape: Any, n_quantiles: int = TQCSettings.n_quantiles, **options: Any):
        self.n_quantiles = n_quantiles
        super().__init__(*shape, **options)

    def make_critics(self, count: int, inputs: int, actions: int, hiddens: Sequence[int], *options: Any) -> BatchedMLP:
        return QuantileCritics(count, [inputs + actions, *hiddens, self.n_quantiles], *options)


class PlainTQCUpdate(TruncatedTargets, PlainSACUpdate):
    """The update of TQC in plain PyTorch: that of SAC with other targets, critics' loss and judgment.

    The atoms of all C target critics at (s', a'), a' ~ π(·|s'), are sorted, and the largest C·drop of them left out;
    with what remains, z_k = r + discounts·(atom_k − α log π(a'|s')):

    * critics: mean(v·w·`quantile_huber`), θ and z means over a row's views, κ the setting `kappa`;
    * actor: mean(v·(α log π(a|s) − mean of all atoms at (s, a))).

    Errors, which serve as priorities, are those of the means: mean of θ_j less mean of z, in the unit of returns as
    those of all other algorithms are. The quantile loss would stay large where returns are random, however well known.
    A loss or targets that rows bring along are of means; here they are passed over.
    """

    def judge(self, batch: SampleLike, obs: Tensor, next_obs: Tensor, m: int, rng: torch.Generator) -> Judged:
        target = self.target_atoms(batch.transitions, next_obs, m, rng)
        quantiles = mean_over_views(self.critic_outputs(batch.transitions, obs, m, rng).mT, m).mT
        losses = batch.weights * quantile_huber(quantiles, target, self.settings.kappa)
        loss, mean = weighted_mean(losses, batch.row_weights), target.mean(dim=1)
        return Judged(loss, quantiles.mean(dim=2) - mean, quantiles.mean(), mean)


TQCUpdate = FastTQCUpdate
"""What learns where nothing else is asked for: `PlainTQCUpdate`, with gradients by hand."""
