"""`interreplay.learning.tqc.PlainTQCUpdate` with gradients by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from interreplay.learning.fast.actor_critic import row_loss_weights, spread_over_views
from interreplay.learning.fast.sac import FastSACUpdate
from interreplay.learning.quantiles import kept_atoms
from interreplay.learning.settings import TQCSettings
from interreplay.learning.update import SampleLike, UpdateResult, mean_over_views, weighted_mean
from interreplay.transitions import Transitions


def quantile_huber_gradients(quantiles: Tensor, target: Tensor, kappa: float) -> tuple[Tensor, Tensor]:
    """Return `interreplay.learning.quantiles.quantile_huber` ``(n,)`` and its gradients by the quantiles ``(C, n, q)``.

    With c = u within ±κ, H_κ(u) = c·(u − ½c), and its derivative is c; both are weighted by τ_i where u > 0 and by
    1 − τ_i where u < 0.
    """
    critics, _, q = quantiles.shape
    levels = (torch.arange(q, dtype=quantiles.dtype, device=quantiles.device) + 0.5) / q
    errors = target.unsqueeze(-2) - quantiles.unsqueeze(-1)
    slopes = errors.clamp(-kappa, kappa)
    errors.sub_(slopes, alpha=0.5)
    slopes = nn.functional.prelu(slopes.flatten(0, 1), (1.0 - levels) / levels).view_as(errors)
    scale = 1.0 / (critics * q * target.shape[-1] * kappa)
    gradients = slopes.sum(dim=-1) * levels * -scale
    return (errors.mul_(slopes).sum(dim=(0, 3)) * levels).sum(dim=-1) * scale, gradients


class FastTQCUpdate(FastSACUpdate):
    """The update of TQC that `interreplay.learning.tqc.PlainTQCUpdate` defines."""

    standard = TQCSettings()

    @torch.no_grad()
    def target(
        self, rows: Transitions, next_obs: Tensor, m: int, noise: Tensor, alpha: Tensor, rng: torch.Generator
    ) -> Tensor:
        """Return the atoms z ``(n, K)``, means over the m views of each next observation ``(n·m, d)``."""
        sample, targets = self.networks.actor(next_obs, noise), self.networks.targets
        inputs = torch.cat([self.target_views(rows, next_obs), sample.actions], dim=1)
        atoms = targets.outputs(inputs, targets.draw_dropped(inputs, rng))
        atoms = kept_atoms(atoms, self.settings.drop_per_critic)
        if self.settings.backup_entropy:
            atoms = atoms - (alpha * sample.log_probs).unsqueeze(1)
        return rows.rewards.unsqueeze(1) + rows.discounts.unsqueeze(1) * mean_over_views(atoms.mT, m).mT

    def step_critics(
        self,
        critic_inputs: Tensor,
        m: int,
        target: Tensor,
        batch: SampleLike,
        rng: torch.Generator,
        taken: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Step the critics towards atoms ``(n, K)``; return errors of the means ``(C, n)`` and the loss."""
        for parameter in self.encoder:
            parameter.grad = None
        critics = self.networks.critics
        forward = critics.passes.run(critic_inputs, critics.draw_dropped(critic_inputs, rng))
        with torch.no_grad():
            quantiles = mean_over_views(forward.outputs.mT, m).mT
            losses, slopes = quantile_huber_gradients(quantiles, target, self.settings.huber_delta)
            share = batch.weights * row_loss_weights(losses, batch.row_weights)
            gradients = spread_over_views((slopes * share.unsqueeze(-1)).mT, m).mT.contiguous()
            loss = weighted_mean(losses * batch.weights, batch.row_weights)
        self.step(critics, forward, gradients, "critic", self.critics)
        return quantiles.mean(dim=2) - target.mean(dim=1), loss

    def judged(
        self, obs: Tensor, actions: Tensor, share: Tensor | float, rng: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        forward = self.networks.critics.passes.run(torch.cat([obs, actions], dim=1), *self.judges(obs, rng))
        outputs = forward.outputs
        slopes = (
            torch.as_tensor(share, dtype=outputs.dtype, device=outputs.device).unsqueeze(-1) / -outputs[:, 0].numel()
        )
        of_actions = forward.backward(slopes.expand_as(outputs), columns=slice(obs.shape[1], None))
        assert of_actions is not None
        return outputs.mean(dim=(0, 2)), of_actions

    def finish_update(
        self, alpha: Tensor, errors: Tensor, target: Tensor, critic_loss: Tensor, rng: torch.Generator
    ) -> UpdateResult:
        return super().finish_update(alpha, errors, target.mean(dim=1), critic_loss, rng)
