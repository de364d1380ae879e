"""`interreplay.learning.tqc.PlainTQCUpdate` with gradients by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from interreplay.learning.fast.actor_critic import beside_outputs, row_loss_weights, spread_over_views
from interreplay.learning.fast.sac import FastSACUpdate
from interreplay.learning.quantiles import TruncatedTargets
from interreplay.learning.update import SampleLike, mean_over_views, weighted_mean


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


class FastTQCUpdate(TruncatedTargets, FastSACUpdate):
    """The update of TQC that `interreplay.learning.tqc.PlainTQCUpdate` defines."""

    def learn_values(
        self, critic_inputs: Tensor, next_obs: Tensor, m: int, batch: SampleLike, rng: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        for parameter in self.encoder:
            parameter.grad = None
        target, critics = self.target_atoms(batch.transitions, next_obs, m, rng), self.networks.critics
        forward = critics.passes.run(critic_inputs, critics.draw_dropped(critic_inputs, rng))
        with torch.no_grad():
            quantiles = mean_over_views(forward.outputs.mT, m).mT
            losses, slopes = quantile_huber_gradients(quantiles, target, self.settings.kappa)
            share = batch.weights * row_loss_weights(losses, batch.row_weights)
            gradients = spread_over_views((slopes * share.unsqueeze(-1)).mT, m).mT.contiguous()
            loss = weighted_mean(losses * batch.weights, batch.row_weights)
        self.step(critics, forward, gradients, "critic", self.critics)
        mean = target.mean(dim=1)
        return quantiles.mean(dim=2) - mean, loss, mean

    def judged(
        self, obs: Tensor, actions: Tensor, share: Tensor | float, rng: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        forward = self.networks.critics.passes.run(torch.cat([obs, actions], dim=1), *self.judges(obs, rng))
        outputs = forward.outputs
        slopes = beside_outputs(share, outputs) / -outputs[:, 0].numel()
        of_actions = forward.backward(slopes.expand_as(outputs), columns=slice(obs.shape[1], None))
        assert of_actions is not None
        return outputs.mean(dim=(0, 2)), of_actions
