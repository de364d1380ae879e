"""What the updates of soft actor-critic share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from interreplay.learning.actor_critic import ActorCriticUpdate
from interreplay.learning.settings import SACSettings
from interreplay.learning.squashed_gaussian import SquashedGaussianSample
from interreplay.learning.update import mean_over_views, normal, repeat_for_views
from interreplay.transitions import Transitions


class SoftUpdate(ActorCriticUpdate):
    """An update with a temperature: the targets of a policy with entropy, and what is reported.

    Args:
        networks: What is learned, with ``log_alpha`` too.
        target_entropy: In nats; None for that of the settings, of which "auto" means the networks'
            ``automatic_entropy`` and "half" half of it.
        **options: Those of `ActorCriticUpdate`, settings by name among them.
    """

    metrics = ("critic_loss", "actor_loss", "alpha_loss", "alpha", "q_mean", "log_prob_mean")
    standard = SACSettings()

    def __init__(self, networks: Any, target_entropy: float | None = None, **options: Any):
        super().__init__(networks, **options)
        target: Any = self.settings.target_entropy if target_entropy is None else target_entropy
        if isinstance(target, str):
            target = {"auto": 1.0, "half": 0.5}[target] * networks.automatic_entropy()
        self.target_entropy = float(target)
        self.optimizers["alpha"] = self.adam([networks.log_alpha], self.settings.alpha_lr)
        zero = torch.zeros_like(networks.log_alpha, requires_grad=False)
        self.policy_metrics = (zero, zero, zero)

    @torch.no_grad()
    def next_sample(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> SquashedGaussianSample:
        """Return a' ~ π(·|s') for the m views of each encoded next observation ``(n·m, d)``, without a gradient."""
        return self.networks.actor(next_obs, normal(repeat_for_views(rows.actions.flatten(1), m), rng))

    @torch.no_grad()
    def soft_target(self, rows: Transitions, values: Tensor, log_probs: Tensor, m: int) -> Tensor:
        """Return r + discounts·(values − α log π) ``(..., n)``, a mean over views, without a gradient.

        Args:
            rows: n rows.
            values: Of the next actions ``(..., n·m)``.
            log_probs: log π ``(n·m,)`` of these actions.
            m: Views of each row.
        """
        if self.settings.backup_entropy:
            values = values - self.networks.log_alpha.exp() * log_probs
        return rows.rewards + rows.discounts * mean_over_views(values, m)

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        sample = self.next_sample(rows, next_obs, m, rng)
        inputs = torch.cat([self.target_views(rows, next_obs), sample.actions], dim=1)
        return self.soft_target(rows, self.lowest_target(inputs, rng).squeeze(-1), sample.log_probs, m)

    def report(self, critic_loss: Tensor, alpha: Tensor, q_mean: Tensor) -> Tensor:
        """Return the metrics; those of the policy are of its last update.

        Args:
            critic_loss: Of this update.
            alpha: The temperature at its beginning.
            q_mean: Mean of the critics' values.
        """
        actor_loss, alpha_loss, log_prob_mean = self.policy_metrics
        return torch.stack([critic_loss, actor_loss, alpha_loss, alpha, q_mean, log_prob_mean])

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"policy_metrics": torch.stack(self.policy_metrics).cpu().numpy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if "policy_metrics" in state:
            kept = torch.as_tensor(state["policy_metrics"], device=self.networks.log_alpha.device).clone()
            self.policy_metrics = (kept[0], kept[1], kept[2])
