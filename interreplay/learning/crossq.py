"""CrossQ (Bhatt et al. 2024, arXiv:1902.05605): no target networks, batch renormalization over both ends of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.actor_critic import SoftUpdate
from interreplay.learning.batch_renorm import RenormedMLP
from interreplay.learning.fast.optimizer import FastAdam
from interreplay.learning.networks import GaussianActor
from interreplay.learning.sac import SACNetworks
from interreplay.learning.settings import CrossQSettings
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

WIDER = 8
"""How many times as wide as the policy's layers the critics' are by default: 2048 for 256."""


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
        return SquashedGaussianSample(self.body.outputs(obs, training)[0], noise)


class CrossQNetworks(SACNetworks):
    """Actor, twin critics and the temperature.

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the policy's hidden layers.
        initial_alpha: First temperature, positive.
        inference_only: Build the actor alone.
        critic_hiddens: Widths of the critics' hidden layers; `WIDER` times those of the policy for "auto".
        warm_up: Training passes of each network before batches are renormalized.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hiddens: Sequence[int] = (256, 256),
        initial_alpha: float = 1.0,
        inference_only: bool = False,
        critic_hiddens: Sequence[int] | str = "auto",
        warm_up: int = CrossQSettings.renorm_warm_up,
    ):
        self.critic_hiddens, self.warm_up = critic_widths(hiddens, critic_hiddens), warm_up
        super().__init__(inputs, actions, hiddens, initial_alpha, inference_only)
        self.targets = nn.ModuleList()

    def make_actor(self, inputs: int, actions: int, hiddens: Sequence[int]) -> Any:
        return CrossQActor(inputs, actions, hiddens, self.warm_up)

    def make_critics(self, inputs: int, actions: int, hiddens: Sequence[int]) -> RenormedMLP:
        return RenormedMLP(2, [inputs + actions, *self.critic_hiddens, 1], self.warm_up)


def critic_widths(hiddens: Sequence[int], critic_hiddens: Sequence[int] | str) -> tuple[int, ...]:
    """Return the widths of the critics' hidden layers, `WIDER` times those of the policy for "auto"."""
    return tuple(WIDER * width for width in hiddens) if critic_hiddens == "auto" else tuple(map(int, critic_hiddens))


class CrossQUpdate(SoftUpdate):
    """The update of CrossQ: critics, and at every d-th update actor and temperature, in this order.

    One training pass gives [Q_j(s, a); Q_j(s', a')], j = 1, 2, for a' ~ π(·|s') of the frozen actor; with
    q_t = r + discounts·(min_j Q_j(s', a') − α log π(a'|s')), through which there is no gradient:

    * critics: Σ_j mean(v·w·½(Q_j(s, a) − q_t)²), as `PlainSACUpdate` has it, with `huber_delta` too;
    * actor: mean(v·(α log π(a|s) − min_j Q_j(s, a))), a ~ π(·|s) in a training pass of the actor; critics are frozen;
    * temperature: as in `PlainSACUpdate`.

    The statistics of a batch depend on both of its halves, and so do their gradients. Adam's β₁ is .5, but for the
    temperature.

    Args:
        networks: Those of `CrossQNetworks`.
        target_entropy: In nats; the paper takes −|A|.
        policy_delay: d.
        **settings: Those of `SoftUpdate` but for `tau`.

    Attributes:
        updates: Their number so far.
    """

    adam, beta_1 = FastAdam, 0.5

    def __init__(
        self, networks: Any, target_entropy: float, policy_delay: int = CrossQSettings.policy_delay, **settings: Any
    ):
        super().__init__(networks, target_entropy, **settings)
        for name in ("actor", "critic"):
            group = self.optimizers[name].param_groups[0]
            group["betas"] = (self.beta_1, group["betas"][1])
        self.policy_delay, self.updates = policy_delay, 0
        self.reported = torch.zeros(3, device=self.critics[0].device)

    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        rows, nets = batch.transitions, self.networks
        obs, next_obs, m = views(rows, nets.encoder)
        actions = repeat_for_views(rows.actions.flatten(1), m)
        alpha = nets.log_alpha.detach().exp()

        with torch.no_grad():
            following = nets.actor(next_obs, normal(actions, rng))
        joint = torch.cat([torch.cat([obs, actions], dim=1), torch.cat([next_obs, following.actions], dim=1)])
        values, next_values = nets.critics.outputs(joint, training=True).squeeze(-1).chunk(2, dim=1)
        next_values = next_values.detach().amin(dim=0) - alpha * following.log_probs
        target = rows.rewards + rows.discounts * mean_over_views(next_values, m)

        errors = mean_over_views(values, m) - target
        losses = batch.weights * half_squares(errors, self.huber_delta)
        critic_loss = weighted_mean(losses, batch.row_weights).sum()
        self.minimize(critic_loss, "critic")

        self.updates += 1
        if self.updates % self.policy_delay == 0:
            self.reported = self.step_policy(batch, self.actor_views(rows, obs, m), alpha, rng)
        actor_loss, alpha_loss, log_prob = self.reported.to(critic_loss)
        metrics = torch.stack([critic_loss, actor_loss, alpha_loss, alpha, (errors + target).mean(), log_prob])
        return UpdateResult(errors.mean(dim=0).detach(), metrics.detach())

    def step_policy(self, batch: SampleLike, obs: Tensor, alpha: Tensor, rng: torch.Generator) -> Tensor:
        """Step actor and temperature; return the losses of both and the mean of log π ``(3,)``."""
        nets = self.networks
        sample = nets.actor(obs, normal(batch.transitions.actions.flatten(1), rng), training=True)
        values = nets.critics.outputs(torch.cat([obs, sample.actions], dim=1)).squeeze(-1).amin(dim=0)
        actor_loss = weighted_mean(alpha * sample.log_probs - values, batch.row_weights)
        self.minimize(actor_loss, "actor")
        log_probs = sample.log_probs.detach()
        alpha_loss = -nets.log_alpha * weighted_mean(log_probs + self.target_entropy, batch.row_weights)
        self.minimize(alpha_loss, "alpha")
        return torch.stack([actor_loss, alpha_loss, log_probs.mean()]).detach()

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates, "reported": self.reported.cpu().numpy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.updates = int(state["updates"])
        self.reported = torch.as_tensor(state["reported"], device=self.reported.device).clone()
