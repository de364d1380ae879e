"""What DDPG and TD3 have in common: networks and update of a deterministic policy gradient."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.actor_critic import ActorCriticUpdate
from interreplay.learning.encoders import Flat
from interreplay.learning.networks import MLP, Critics, polyak
from interreplay.learning.update import over_views, shares, views, weighted_mean
from interreplay.transitions import Transitions


class DeterministicActor(nn.Module):
    """A policy with one action per observation, squashed by tanh into [−1, 1].

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers.
    """

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int]):
        super().__init__()
        self.body = MLP([inputs, *hiddens, actions])

    def forward(self, obs: Tensor) -> Tensor:
        """Actions ``(n, actions)`` for observations ``(n, inputs)``."""
        return torch.tanh(self.body(obs))

    def act(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        """Actions with `noise` of their shape added and clipped to [−1, 1], or the policy's own for None."""
        actions = torch.tanh(self.body.outputs(obs)[0])
        return actions if noise is None else (actions + noise).clamp_(-1.0, 1.0)


class DeterministicNetworks(nn.Module):
    """Actor, m critics, and the targets of both.

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers of all networks.
        critics: m.
        last_bound: Bound of the uniform weights with which last layers start; 1/√fan_in for None.
        inference_only: Build the actor alone.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hiddens: Sequence[int] = (256, 256),
        critics: int = 2,
        last_bound: float | None = None,
        inference_only: bool = False,
    ):
        super().__init__()
        self.encoder: nn.Module = Flat()
        self.actor = DeterministicActor(inputs, actions, hiddens)
        last = [self.actor.body.weights[-1], self.actor.body.biases[-1]]
        if not inference_only:
            self.critics = Critics(critics, inputs + actions, hiddens)
            last += [self.critics.weights[-1], self.critics.biases[-1]]
        if last_bound is not None:
            for parameter in last:
                nn.init.uniform_(parameter, -last_bound, last_bound)
        if inference_only:
            return
        self.target_actor = DeterministicActor(inputs, actions, hiddens).requires_grad_(False)
        self.targets = Critics(critics, inputs + actions, hiddens).requires_grad_(False)
        self.target_actor.load_state_dict(self.actor.state_dict())
        self.targets.load_state_dict(self.critics.state_dict())


class DeterministicUpdate(ActorCriticUpdate):
    """An update of m critics and, when it is due, of the actor and all targets.

    With q_t = r + discounts·min_j Q'_j(s', a'), a' from the target actor:

    * critics: Σ_j mean(v·w·δ_j²), δ_j = Q_j(s, a) − q_t, w the importance weights, Q_j and q_t means over a row's
      views; with `huber_delta` twice Huber's loss in place of δ², the same for |δ| up to it and linear beyond;
    * actor: mean(−v·Q_1(s, π(s))).

    v are the row weights, 1 where there are none. The L2 terms are in the gradients, not in the reported losses.

    Args:
        networks: What is learned.
        actor_lr: Learning rate of the actor.
        critic_lr: Learning rate of the critics.
        tau: Share of the way that targets move per update of theirs.
        actor_l2: c of the term c·½‖θ‖² in the actor's loss.
        critic_l2: The same in the critics' loss.
        huber_delta: Error up to which the critics' loss is square, or None for all.
        grad_clip: Largest gradient norm per optimiser, or None.
    """

    scale = 2.0
    metrics = ("critic_loss", "actor_loss", "q_mean")

    def __init__(
        self,
        networks: DeterministicNetworks,
        actor_lr: float = 3e-4,
        critic_lr: float = 3e-4,
        tau: float = 0.005,
        actor_l2: float = 0.0,
        critic_l2: float = 0.0,
        huber_delta: float | None = None,
        grad_clip: float | None = None,
    ):
        super().__init__(networks, actor_lr, critic_lr, actor_l2, critic_l2, huber_delta, grad_clip)
        self.tau = tau
        self.target_actor: list[Tensor] = list(networks.target_actor.parameters())
        self.updates = 0
        self._actor_loss = torch.zeros((), device=self.critics[0].device)

    @abstractmethod
    def target_actions(self, next_obs: Tensor, rng: torch.Generator) -> Tensor:
        """Actions a' ``(n, actions)`` at which targets are evaluated."""

    def actor_due(self) -> bool:
        """Whether this update is one of the actor and the targets too; `updates` counts from 1 on."""
        return True

    def apply(
        self, rows: Transitions, weights: Tensor, rng: torch.Generator, row_weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        obs, next_obs, m = views(rows, self.networks.encoder)
        actions = rows.actions.flatten(1)
        seen = actions if m == 1 else actions.repeat_interleave(m, dim=0)
        target = self.target_values(rows, self.target_views(rows, next_obs), m, rng)
        errors, critic_loss = self.step_critics(torch.cat([obs, seen], dim=1), m, target, weights, row_weights)
        self.updates += 1
        if self.actor_due():
            self._actor_loss = self.step_actor(self.seen_by_actor(rows, obs, m), row_weights)
            self.move_targets(self.tau)
            polyak(self.target_actor, [*self.actor], self.tau)
        report = torch.stack([critic_loss, self._actor_loss.to(critic_loss), (errors + target).mean()])
        return errors.mean(dim=0), report

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        """q_t ``(n,)``, the mean over the m views of each next observation ``(n·m, d)``."""
        actions = self.target_actions(next_obs, rng)
        values = self.networks.targets(torch.cat([next_obs, actions], dim=1)).amin(dim=0)
        return rows.rewards + rows.discounts * over_views(values, m)

    @torch.no_grad()
    def step_actor(self, obs: Tensor, row_weights: Tensor | None) -> Tensor:
        """Step the actor by the first critic's opinion of it; returns its loss before the step."""
        made = self.networks.actor.body.run(obs)
        actions = made.outputs.squeeze(0).tanh()
        judged = self.networks.critics.run(torch.cat([obs, actions], dim=1), first=1)
        values = judged.outputs.squeeze(-1).squeeze(0)
        slopes = torch.zeros_like(values) - shares(values, row_weights)
        of_actions = judged.backward(slopes.view(1, -1, 1), columns=slice(obs.shape[1], None))
        assert of_actions is not None
        of_body = of_actions * (1.0 - actions.square())
        self.step(self.networks.actor.body, made, of_body.unsqueeze(0), "actor", self.actor)
        return -weighted_mean(values, row_weights)

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates, "actor_loss": self._actor_loss.cpu().numpy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.updates = int(state["updates"])
        self._actor_loss = torch.as_tensor(state["actor_loss"], device=self._actor_loss.device).clone()
