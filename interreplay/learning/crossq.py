"""CrossQ (Bhatt et al. 2024, arXiv:1902.05605): no target networks, batch renormalization over both ends of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.batch_renorm import RenormedMLP
from interreplay.learning.fast.optimizer import FastAdam, FastAdamW
from interreplay.learning.networks import GaussianActor
from interreplay.learning.offers import REDUCIBLE_LOSS
from interreplay.learning.sac import Judged, PlainSACUpdate, SACNetworks
from interreplay.learning.soft_settings import CrossQSettings
from interreplay.learning.squashed_gaussian import SquashedGaussianSample
from interreplay.learning.update import SampleLike, mean_over_views, repeat_for_views

WIDER = 8
"""How many times as wide as the policy's layers the critics' are by default: 2048 for 256."""


def critic_widths(hiddens: Sequence[int], critic_hiddens: Sequence[int] | str) -> tuple[int, ...]:
    """Return the widths of the critics' hidden layers, `WIDER` times those of the policy for "auto"."""
    return tuple(WIDER * width for width in hiddens) if critic_hiddens == "auto" else tuple(map(int, critic_hiddens))


class CrossQActor(GaussianActor):
    """SAC's policy with batch renormalization; whoever acts does so with the running statistics.

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers.
        warm_up: Training passes before batches are renormalized.
    """

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int], warm_up: int):
        super().__init__(inputs, actions, hiddens)
        self.body: Any = RenormedMLP(1, [inputs, *hiddens, 2 * actions], warm_up)

    def forward(self, obs: Tensor, noise: Tensor, training: bool = False) -> SquashedGaussianSample:
        """Sample actions as `GaussianActor` does; a training pass changes the running statistics."""
        return SquashedGaussianSample(self.body.outputs(obs, training=training)[0], noise)


class CrossQNetworks(SACNetworks):
    """Actor, critics and the temperature; there are no targets.

    Args:
        *shape: As of `SACNetworks`; `hiddens` are the policy's.
        critic_hiddens: As of `critic_widths`.
        renorm_warm_up: Training passes of each network before batches are renormalized.
        **options: As of `SACNetworks`.
    """

    def __init__(
        self,
        *shape: Any,
        critic_hiddens: Sequence[int] | str = "auto",
        renorm_warm_up: int = CrossQSettings.renorm_warm_up,
        **options: Any,
    ):
        self.critic_hiddens, self.warm_up = critic_hiddens, renorm_warm_up
        super().__init__(*shape, **options)

    def make_actor(self, inputs: int, actions: int, hiddens: Sequence[int]) -> Any:
        return CrossQActor(inputs, actions, hiddens, self.warm_up)

    def make_critics(self, count: int, inputs: int, actions: int, hiddens: Sequence[int], *options: Any) -> RenormedMLP:
        widths = critic_widths(hiddens, self.critic_hiddens)
        return RenormedMLP(count, [inputs + actions, *widths, 1], self.warm_up)

    def make_targets(self, *shape: Any) -> nn.Module:
        return nn.ModuleList()


class CrossQUpdate(PlainSACUpdate):
    """The update of CrossQ: that of SAC, by autograd, without targets and with batches normalized.

    One training pass gives [Q_j(s, a); Q_j(s', a')] for a' ~ π(·|s') of the frozen actor; with
    q_t = r + discounts·(min_j Q_j(s', a') − α log π(a'|s')), through which there is no gradient:

    * critics: Σ_j mean(v·w·½(Q_j(s, a) − q_t)²);
    * actor: mean(v·(α log π(a|s) − min_j Q_j(s, a))), a ~ π(·|s) in a training pass of the actor; critics are frozen.

    The statistics of a batch depend on both of its halves, and so do their gradients. β₁ of Adam is .5, but for the
    temperature's.
    """

    adam, adamw, betas = FastAdam, FastAdamW, (0.5, 0.999)
    standard = CrossQSettings()
    offers = PlainSACUpdate.offers - {REDUCIBLE_LOSS}

    def judge(self, batch: SampleLike, obs: Tensor, next_obs: Tensor, m: int, rng: torch.Generator) -> Judged:
        rows, following = batch.transitions, self.next_sample(batch.transitions, next_obs, m, rng)
        now = torch.cat([obs, repeat_for_views(rows.actions.flatten(1), m)], dim=1)
        joint = torch.cat([now, torch.cat([next_obs, following.actions], dim=1)])
        values, next_values = self.networks.critics.outputs(joint, training=True).squeeze(-1).chunk(2, dim=1)
        target = self.soft_target(rows, next_values.amin(dim=0), following.log_probs, m)
        errors = mean_over_views(values, m) - target
        return Judged(self.critic_loss(batch, errors), errors, values.mean(), target)

    def lowest_target(self, inputs: Tensor, rng: torch.Generator) -> Tensor:
        """Return the minimum of the frozen critics, by which rows are scored that are not learned from."""
        return self.networks.critics.outputs(inputs).amin(dim=0)

    def learned_sample(self, obs: Tensor, noise: Tensor) -> SquashedGaussianSample:
        return self.networks.actor(obs, noise, training=True)
