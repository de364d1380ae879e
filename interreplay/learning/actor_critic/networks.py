"""The networks of algorithms with an actor and critics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from interreplay.learning.networks.encoders import Flat
from interreplay.learning.networks.layers import BatchedMLP
from interreplay.learning.networks.residual_layers import ResidualMLP


class ActorCriticNetworks(nn.Module):
    """Actor, critics and their target networks.

    Args:
        inputs: Width of an observation.
        actions: Width of an action.
        hiddens: Widths of the hidden layers of all networks.
        inference_only: Build the actor alone.
        critics: Number of critics m.
        layer_norm: Whether the critics' hidden layers are normalized.
        dropout: Probability with which the critics' hidden units are dropped while learning.
        critic_blocks: Number of residual blocks of the critics, see `ResidualMLP`; 0 for plain layers.
        critic_width: Width of critics with residual blocks.
        actor_blocks: Number of residual blocks of the actor; 0 for plain layers.
        actor_width: Width of an actor with residual blocks.
        last_bound: Bound of the uniform initial weights of last layers; None for 1/√fan_in.

    Attributes:
        actor_class: Class of the policy.
        critic_outputs: Outputs of each critic for a continuous action.
    """

    actor_class: ClassVar[Any]
    critic_outputs = 1

    def __init__(
        self,
        inputs: int,
        actions: int,
        hiddens: Sequence[int] = (256, 256),
        inference_only: bool = False,
        critics: int = 2,
        layer_norm: bool = False,
        dropout: float = 0.0,
        critic_blocks: int = 0,
        critic_width: int = 128,
        actor_blocks: int = 0,
        actor_width: int = 128,
        last_bound: float | None = None,
    ):
        super().__init__()
        self.last_bound = last_bound
        self.encoder: nn.Module = Flat()
        of_actor = (inputs, actions, hiddens, actor_blocks, actor_width)
        self.actor = self.make_actor(*of_actor)
        if inference_only:
            self.bound_last_layers()
            return
        of_critics = (critics, inputs, actions, hiddens, layer_norm, dropout, critic_blocks, critic_width)
        self.critics: Any = self.make_critics(*of_critics)
        self.bound_last_layers()
        self.make_targets(of_actor, of_critics)
        self.copy_to_targets()

    def make_actor(self, *shape: Any) -> Any:
        """Make the policy; arguments as in `interreplay.learning.policies.FeedforwardPolicy`."""
        return self.actor_class(*shape)

    def make_critics(
        self,
        count: int,
        inputs: int,
        actions: int,
        hiddens: Sequence[int],
        layer_norm: bool,
        dropout: float,
        blocks: int,
        width: int,
    ) -> BatchedMLP:
        """Make `count` critics with plain layers, or with `blocks` residual blocks of a width."""
        outputs = actions
        if not self.actor_class.discrete:
            inputs += actions
            outputs = self.critic_outputs
        if blocks:
            return ResidualMLP(count, inputs, width, blocks=blocks, outputs=outputs)
        return BatchedMLP(count, [inputs, *hiddens, outputs], layer_norm, dropout)

    def make_targets(self, of_actor: Sequence[Any], of_critics: Sequence[Any]) -> None:
        """Make the target networks, with the arguments of `make_actor` and `make_critics`."""
        self.targets: nn.Module = self.make_critics(*of_critics).requires_grad_(False)

    def copy_to_targets(self) -> None:
        """Copy the parameters of networks to their target networks."""
        self.targets.load_state_dict(self.critics.state_dict())

    def bound_last_layers(self, rng: torch.Generator | None = None) -> None:
        """Draw the last layers of actor and critics uniformly within ±`last_bound`, unless it is None."""
        if self.last_bound is None:
            return
        networks = [self.actor.body]
        if hasattr(self, "critics"):
            networks.append(self.critics)
        for layers in networks:
            for parameter in layers.last_parameters():
                nn.init.uniform_(parameter, -self.last_bound, self.last_bound, generator=rng)

    def reset(self, rng: torch.Generator) -> None:
        """Draw everything but the encoder again."""
        self.actor.body.reset(rng)
        self.critics.reset(rng)
        self.bound_last_layers(rng)
        self.copy_to_targets()
