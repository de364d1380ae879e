"""The RLModule of SAC: the networks of `interreplay.learning` in RLlib's clothes."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.utils.annotations import override
from torch import Tensor

from interreplay.learning.sac import SACNetworks
from interreplay.learning.update import flat_observation


def flat_size(space: gym.Space) -> int:
    """Numbers in one observation or action of a space."""
    return int(gym.spaces.flatdim(space))


def check_action_space(space: gym.Space) -> None:
    """Refuse spaces that a squashed or deterministic policy cannot act in.

    Raises:
        ValueError: Naming the space.
    """
    if not isinstance(space, gym.spaces.Box):
        raise ValueError(f"the action space is {space}; expected a Box of continuous actions")
    if not space.is_bounded():
        raise ValueError(f"the action space {space} is unbounded; expected a Box with finite bounds")


class SACModule(TorchRLModule, InferenceOnlyAPI):
    """Actor, twin critics, targets and temperature; actions lie in (−1, 1) and are scaled by RLlib's connectors.

    ``model_config``: ``hiddens`` widths of the hidden layers, ``initial_alpha`` first temperature.
    """

    framework = "torch"

    @override(RLModule)
    def setup(self) -> None:
        check_action_space(self.action_space)
        self.nets = SACNetworks(
            flat_size(self.observation_space),
            flat_size(self.action_space),
            self.model_config["hiddens"],
            self.model_config["initial_alpha"],
            inference_only=self.inference_only,
        )

    @override(InferenceOnlyAPI)
    def get_non_inference_attributes(self) -> list[str]:
        return [] if self.inference_only else ["nets.critics", "nets.targets", "nets.log_alpha"]

    def act(self, obs: Tensor, noise: Tensor | None) -> Tensor:
        """Actions ``(n, actions)`` in (−1, 1) for standard normal `noise` of their shape, or the mode for None."""
        return self.nets.actor.act(obs, noise)

    def behavior(self, obs: Tensor) -> Tensor:
        """What the policy gives: [mean; log std] ``(n, 2·actions)`` of the Gaussian that it squashes."""
        return self.nets.actor.distribution(obs)

    def random_behavior(self, count: int) -> Tensor:
        """What stands for uniformly random actions ``(count, 2·actions)``: their own mean and log std."""
        size = flat_size(self.action_space)
        return torch.tensor([0.0, -0.5 * math.log(3.0)]).repeat_interleave(size).expand(count, -1)

    @override(TorchRLModule)
    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTIONS: self._shaped(self.act(flat_observation(batch[Columns.OBS]), None))}

    @override(TorchRLModule)
    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        obs = flat_observation(batch[Columns.OBS])
        noise = torch.randn(len(obs), flat_size(self.action_space), device=obs.device)
        return {Columns.ACTIONS: self._shaped(self.act(obs, noise))}

    @override(TorchRLModule)
    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        raise NotImplementedError("the learner updates from a Sample; see interreplay.rllib.learner")

    def _shaped(self, actions: Tensor) -> Tensor:
        return actions.reshape(len(actions), *self.action_space.shape)
