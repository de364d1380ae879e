"""Truncated quantile critics, TQC (Kuznetsov et al. 2020, arXiv:2005.04269)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.actor_critic import SoftUpdate
from interreplay.learning.fast.optimizer import FastAdam
from interreplay.learning.fast.quantile_huber import QuantileHuber
from interreplay.learning.networks import BatchedMLP
from interreplay.learning.sac import SACNetworks
from interreplay.learning.settings import TQCSettings
from interreplay.learning.squashed_gaussian import SquashedGaussianSample
from interreplay.learning.update import (
    SampleLike,
    UpdateResult,
    half_squares,
    mean_over_views,
    normal,
    repeat_for_views,
    views,
    weighted_mean,
)


class TQCNetworks(SACNetworks):
    """Actor, critics with a quantile per output, their targets and the temperature.

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers of all networks.
        initial_alpha: First temperature, positive.
        inference_only: Build the actor alone.
        n_critics: Number of critics C.
        n_quantiles: Quantiles of each, q.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hiddens: Sequence[int] = (256, 256),
        initial_alpha: float = 1.0,
        inference_only: bool = False,
        n_critics: int = TQCSettings.n_critics,
        n_quantiles: int = TQCSettings.n_quantiles,
    ):
        self.n_critics, self.n_quantiles = n_critics, n_quantiles
        super().__init__(inputs, actions, hiddens, initial_alpha, inference_only)

    def make_critics(self, inputs: int, actions: int, hiddens: Sequence[int]) -> BatchedMLP:
        return BatchedMLP(self.n_critics, [inputs + actions, *hiddens, self.n_quantiles])


def quantile_huber(quantiles: Tensor, target: Tensor, kappa: float) -> Tensor:
    """Return the quantile Huber loss of each row, a mean over pairs (Dabney et al. 2018, arXiv:1710.10044, eq. 10).

    With u = z_k − θ_ji for quantile i of critic j and atom k, and τ_i = (i + ½)/q: |τ_i − 1[u < 0]|·H_κ(u)/κ.

    Args:
        quantiles: θ ``(C, n, q)``.
        target: z ``(n, K)``.
        kappa: κ, the error from which on the loss is linear.

    Returns:
        ``(n,)``.
    """
    q = quantiles.shape[-1]
    levels = (torch.arange(q, dtype=quantiles.dtype, device=quantiles.device) + 0.5) / q
    errors = target.unsqueeze(-2) - quantiles.unsqueeze(-1)
    slopes = (levels.unsqueeze(-1) - (errors.detach() < 0).to(errors)).abs()
    return (slopes * half_squares(errors, kappa)).mean(dim=(0, 2, 3)) / kappa


class PlainTQCUpdate(SoftUpdate):
    """The update of TQC in plain PyTorch: critics, actor, temperature, targets, in this order.

    The atoms of all C target critics at (s', a'), a' ~ π(·|s'), are sorted, and the largest C·drop of them left out;
    with what remains, z_k = r + discounts·(atom_k − α log π(a'|s')):

    * critics: mean(v·w·`quantile_huber`), θ and z means over a row's views, κ is `huber_delta`;
    * actor: mean(v·(α log π(a|s) − mean of all atoms at (s, a))), a ~ π(·|s) by reparametrization;
    * temperature: as in `PlainSACUpdate`.

    Errors, which serve as priorities, are those of the means: mean of θ_j less mean of z, in the unit of returns as
    those of all other algorithms are. The quantile loss would stay large where returns are random, however well known.

    Args:
        networks: Those of `TQCNetworks`.
        target_entropy: In nats; the paper takes −|A|.
        drop_per_critic: Atoms per critic that are left out of targets.
        **settings: Those of `SoftUpdate`.
    """

    loss = staticmethod(quantile_huber)

    def __init__(
        self, networks: Any, target_entropy: float, drop_per_critic: int = TQCSettings.drop_per_critic, **settings: Any
    ):
        super().__init__(networks, target_entropy, **({"huber_delta": TQCSettings.huber_delta} | settings))
        self.drop_per_critic = drop_per_critic

    def outputs(self, layers: BatchedMLP, rows: Tensor) -> Tensor:
        """Return outputs ``(m, n, out)`` of networks that have gradients."""
        return layers.outputs(rows)

    def truncated(self, atoms: Tensor) -> Tensor:
        """Return the kept atoms ``(n, K)`` in rising order of those of C critics ``(C, n, q)``."""
        pooled = atoms.transpose(0, 1).flatten(1)
        return pooled.sort(dim=1).values[:, : pooled.shape[1] - self.drop_per_critic * len(atoms)]

    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        rows, nets = batch.transitions, self.networks
        obs, next_obs, m = views(rows, nets.encoder)
        actions = repeat_for_views(rows.actions.flatten(1), m)
        alpha = nets.log_alpha.detach().exp()

        with torch.no_grad():
            following = nets.actor(next_obs, normal(actions, rng))
            atoms = nets.targets.outputs(torch.cat([self.target_views(rows, next_obs), following.actions], dim=1))
            next_values = self.truncated(atoms) - (alpha * following.log_probs).unsqueeze(1)
            target = rows.rewards.unsqueeze(1) + rows.discounts.unsqueeze(1) * mean_over_views(next_values.mT, m).mT

        outputs = self.outputs(nets.critics, torch.cat([obs, actions], dim=1))
        quantiles = mean_over_views(outputs.mT, m).mT
        losses = batch.weights * self.loss(quantiles, target, self.huber_delta)
        critic_loss = weighted_mean(losses, batch.row_weights)
        self.minimize(critic_loss, "critic")

        actor_obs = self.actor_views(rows, obs, m)
        noise = normal(rows.actions.flatten(1), rng)
        sample = SquashedGaussianSample(self.outputs(nets.actor.body, actor_obs)[0], noise)
        values = self.outputs(nets.critics, torch.cat([actor_obs, sample.actions], dim=1)).mean(dim=(0, 2))
        actor_loss = weighted_mean(alpha * sample.log_probs - values, batch.row_weights)
        self.minimize(actor_loss, "actor")

        log_probs = sample.log_probs.detach()
        alpha_loss = -nets.log_alpha * weighted_mean(log_probs + self.target_entropy, batch.row_weights)
        self.minimize(alpha_loss, "alpha")

        self.move_targets()
        errors = (quantiles.mean(dim=2) - target.mean(dim=1)).mean(dim=0)
        metrics = torch.stack([critic_loss, actor_loss, alpha_loss, alpha, quantiles.mean(), log_probs.mean()])
        return UpdateResult(errors.detach(), metrics.detach())


class FastTQCUpdate(PlainTQCUpdate):
    """The same with backward passes of networks and quantile loss by hand, and Adam in one kernel."""

    adam = FastAdam
    loss = staticmethod(QuantileHuber.apply)

    def outputs(self, layers: BatchedMLP, rows: Tensor) -> Tensor:
        return layers.passes.differentiable(rows)


TQCUpdate = FastTQCUpdate
"""What learns where nothing else is asked for."""
