"""Returns as quantiles: what is kept of target atoms, and the loss towards them."""

from __future__ import annotations

import torch
from torch import Tensor

from interreplay.learning.losses import Huber
from interreplay.learning.offers import CRITIC_LOSS
from interreplay.learning.soft_settings import TQCSettings
from interreplay.learning.soft_update import SoftUpdate
from interreplay.transitions import Transitions


def kept_atoms(atoms: Tensor, drop: int) -> Tensor:
    """Return the atoms ``(n, K)`` of C critics ``(C, n, q)`` in rising order, without the C·drop largest."""
    pooled = atoms.transpose(0, 1).flatten(1)
    return pooled.sort(dim=1).values[:, : pooled.shape[1] - drop * len(atoms)]


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
    return (slopes * Huber(kappa).values(errors)).mean(dim=(0, 2, 3)) / kappa


class TruncatedTargets(SoftUpdate):
    """Target atoms of all critics without the largest; rows may not bring another loss than the quantile one."""

    standard = TQCSettings()
    offers = SoftUpdate.offers - {CRITIC_LOSS}

    @torch.no_grad()
    def target_atoms(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        """Return the atoms z ``(n, K)``, means over the m views of each encoded next observation ``(n·m, d)``."""
        targets, sample = self.networks.targets, self.next_sample(rows, next_obs, m, rng)
        inputs = torch.cat([self.target_views(rows, next_obs), sample.actions], dim=1)
        atoms = kept_atoms(targets.outputs(inputs, targets.draw_dropped(inputs, rng)), self.settings.drop_per_critic)
        return self.soft_target(rows, atoms.mT, sample.log_probs, m).mT

    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        return self.target_atoms(rows, next_obs, m, rng).mean(dim=1)
