"""Truncated quantile critics, TQC (Kuznetsov et al. 2020, arXiv:2005.04269)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from interreplay.learning.actor_critic.actor_critic import ActorCriticUpdate, CriticLosses, PolicyLosses, next_noise
from interreplay.learning.actor_critic.sac import SOFT_METRICS, SACNetworks, soft_losses
from interreplay.learning.losses import SortedQuantileHuber, sorted_quantile_huber
from interreplay.learning.settings import TQCSettings
from interreplay.learning.update import CRITIC_LOSS, Batch, critic_weights, flat_rows, mean_over_views, normal
from interreplay.transitions import Transitions


class TQCNetworks(SACNetworks):
    """SAC's networks with `n_quantiles` quantiles of the return as outputs of each critic."""

    def __init__(self, *shape: Any, n_quantiles: int = TQCSettings.n_quantiles, **options: Any):
        self.critic_outputs = n_quantiles
        super().__init__(*shape, **options)


class TQCUpdate(ActorCriticUpdate):
    """The update of TQC: critics, actor, temperature, target networks, in this order.

    The atoms of all C target critics at (s', a'), a' ~ π(·|s'), are sorted, and the largest C·drop atoms are dropped.
    With the remaining atoms, z_k = r + discounts·(atom_k − α log π(a'|s')):

    * critics: mean(v·w·`quantile_huber`), θ and z means over a row's views, κ the setting `kappa`;
    * actor: mean(v·(α log π(a|s) − mean of all atoms at (s, a)));
    * temperature: as in SAC.

    TD errors, which serve as priorities, are errors of means, mean of θ_j − mean of z, in the unit of returns as for
    all other algorithms. The quantile loss would stay large for random returns, however well they are known. Losses and
    targets that come with rows are losses and targets of means; TQC does not use them.
    """

    metrics = SOFT_METRICS
    standard = TQCSettings()
    offers = ActorCriticUpdate.offers - {CRITIC_LOSS}

    def critic_losses(self, batch: Batch, obs: Tensor, next_obs: Tensor, m: int, rng: Any) -> CriticLosses:
        rows = batch.transitions
        critics = self.networks.critics
        atoms = self.target_atoms(rows, next_obs, m, rng)
        quantiles = critics.outputs(self.critic_inputs(rows, obs, m), critics.draw_dropped(obs, rng))
        quantiles = mean_over_views(quantiles.mT, m).mT
        losses = quantile_huber(quantiles, atoms, self.settings.kappa, critics.plain)
        loss = (losses * critic_weights(batch, losses)).mean()
        target = atoms.mean(dim=1)
        return loss, quantiles.detach().mean(dim=2) - target, target

    def policy_losses(self, rows: Transitions, obs: Tensor, weights: Tensor | None, rng: Any) -> PolicyLosses:
        actions, log_probs = self.networks.actor(obs, normal(flat_rows(rows.actions), rng))
        values = self.values_for_actor([obs, actions], rng).mean(dim=-1)
        return soft_losses(self, log_probs, values, weights)

    @torch.no_grad()
    def target_atoms(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        """Return the atoms z ``(n, K)``, means over the m views of each encoded next observation ``(n·m, d)``."""
        targets = self.networks.targets
        actions, log_probs = self.networks.actor(next_obs, next_noise(rows, m, rng))
        inputs = [self.target_views(rows, next_obs), actions]
        outputs = targets.outputs(inputs, targets.draw_dropped(next_obs, rng))
        pooled = outputs.transpose(0, 1).flatten(1)
        kept = pooled.shape[1] - self.settings.drop_per_critic * len(outputs)
        atoms = pooled.sort(dim=1).values[:, :kept]
        if self.settings.backup_entropy:
            atoms = atoms - (self.networks.log_alpha.exp() * log_probs).unsqueeze(-1)
        return rows.rewards.unsqueeze(-1) + rows.discounts.unsqueeze(-1) * mean_over_views(atoms.mT, m).mT

    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        return self.target_atoms(rows, next_obs, m, rng).mean(dim=1)

    def values_of_taken(self, outputs: Tensor, rows: Transitions, m: int) -> Tensor:
        """Return the values ``(critics, n)`` of the actions in the rows: means over quantiles and views."""
        return mean_over_views(outputs.mean(dim=-1), m)


def quantile_huber(quantiles: Tensor, target: Tensor, kappa: float, plain: bool = False) -> Tensor:
    """Return the quantile Huber loss of rows ``(n,)``, means over pairs (Dabney et al. 2018, arXiv:1710.10044, eq. 10).

    With u = z_k − θ_ji for quantile i of critic j and atom k, and τ_i = (i + ½)/q: |τ_i − 1[u < 0]|·H_κ(u)/κ.

    Args:
        quantiles: θ ``(C, n, q)``.
        target: z ``(n, K)``, without a gradient.
        kappa: κ, the error beyond which the loss is linear.
        plain: Whether autograd differentiates each operation, as it does in programs.
    """
    critics, _, q = quantiles.shape
    levels = (torch.arange(q, dtype=quantiles.dtype, device=quantiles.device) + 0.5) / q
    pooled = quantiles.transpose(0, 1).flatten(1)
    given = (pooled, target, levels.repeat(critics), kappa)
    if plain or torch.compiler.is_compiling():
        losses, _ = sorted_quantile_huber(*given)
    else:
        losses = SortedQuantileHuber.apply(*given)
    return losses / (critics * q)
