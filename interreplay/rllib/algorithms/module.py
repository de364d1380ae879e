"""The RLModules: networks of `interreplay.learning` in RLlib's clothes."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.utils.annotations import override
from ray.util.debug import log_once
from torch import Tensor, nn

from interreplay.acting import stored_policy
from interreplay.acting.actions import check_action_space
from interreplay.environments.spaces import flat_actions, named_parts
from interreplay.learning.architectures import Architecture, assembled, encoder_of
from interreplay.learning.exploration import Exploration, Gaussian, Sampled
from interreplay.learning.policies import POLICY_OUTPUT, Policy


def share_statistics(nets: Any) -> None:
    """Let the target encoder, where there is one, normalize observations by the statistics of the encoder."""
    target: Any = getattr(nets, "target_encoder", None)
    for path, buffer in nets.encoder.named_buffers() if target is not None else ():
        module, _, name = path.rpartition(".")
        setattr(target.get_submodule(module), name, buffer)


class OffPolicyModule(TorchRLModule, InferenceOnlyAPI):
    """Actor, critics, targets; actions lie in [−1, 1] and are scaled by the runner, or by RLlib's connectors.

    Discrete actions are numbers from 0 on.

    ``model_config``: ``hiddens`` widths of the hidden layers, ``matrix_dtype`` of the products between them,
    ``exploration`` with which `forward_exploration` acts, a copy of it; the runner has its own.

    Attributes:
        architecture: How networks are made; ``model_config`` has its settings, too.
        nets: The networks, the policy among them as ``actor``, and what encodes observations for them.
    """

    framework = "torch"
    architecture: Architecture
    nets: Any

    def __init__(self, *args: Any, **kwargs: Any):
        # RLlib's constructor makes an object of a class that it deprecates, and warns of it once.
        log_once("RLModule(config=[RLModuleConfig object])")
        super().__init__(*args, **kwargs)

    @override(RLModule)
    def setup(self) -> None:
        check_action_space(self.action_space, self.architecture.acts_in)
        encoder, width = self.make_encoder()
        self.nets = assembled(self.make_networks(width), encoder, self.model_config)
        given = self.model_config.get("exploration")  # which modules saved before there was one do not have
        self._exploration: Exploration = copy.deepcopy(given) or (Sampled() if self.policy.stochastic else Gaussian())
        self._exploration.check(self.policy)
        if not self.inference_only and all(any(True for _ in net.parameters()) for net in (encoder, self.nets.targets)):
            self.nets.target_encoder = copy.deepcopy(encoder).requires_grad_(False)
            share_statistics(self.nets)

    def make_encoder(self) -> tuple[nn.Module, int]:
        """Return what encodes observations for the networks, and how many numbers it makes of one."""
        return encoder_of(self.observation_space, self.model_config)

    def make_networks(self, inputs: int) -> nn.Module:
        """Return networks for so many numbers in encoded observations, the ``actor`` alone where `inference_only`."""
        return self.architecture.make(inputs, flat_actions(self.action_space), self.model_config, self.inference_only)

    def described(self, normalized: bool, **about: Any) -> dict[str, Any]:
        """Return a description of the policy, for checkpoints; arguments as those of `stored_policy.describe`."""
        methods = OffPolicyModule.make_encoder, OffPolicyModule.make_networks
        own = any(getattr(type(self), method.__name__) is not method for method in methods)
        if own or not stored_policy.architecture_named(self.architecture):
            return {"format": stored_policy.FORMAT, "own_code": f"{type(self).__module__}.{type(self).__qualname__}"}
        spaces = self.observation_space, self.action_space
        return stored_policy.describe(self.architecture, *spaces, self.model_config, normalized=normalized, **about)

    @property
    def policy(self) -> Policy:
        """Who acts."""
        return self.nets.actor

    @property
    def gaussian(self) -> bool:
        """Whether `behavior` gives [mean; log std]."""
        return self.policy.gaussian

    def behavior(self, obs: Tensor) -> Tensor:
        """Return what the policy gives for encoded observations ``(n, inputs)``, to compare policies by."""
        return self.policy.record(self.policy.output(obs))[POLICY_OUTPUT]

    @torch.no_grad()
    def policy_output(self, obs: Any) -> Tensor:
        """Return the same for stored observations ``(n, ...)``, as runners record it when they act."""
        return self.behavior(self.encode(obs))

    def random_behavior(self, count: int) -> Tensor:
        """Return what stands for `count` uniformly random actions in its place."""
        return self.policy.record_random(count)[POLICY_OUTPUT]

    @override(InferenceOnlyAPI)
    def get_non_inference_attributes(self) -> list[str]:
        parts = {name.partition(".")[0] for name, _ in self.nets.named_parameters()}
        return [f"nets.{name}" for name in sorted(parts - {"actor", "encoder"})]

    def encode(self, obs: Any) -> Tensor:
        """Return observations as they are stored, or as RLlib has them, to what the networks see, ``(n, d)``."""
        return self.nets.encoder(named_parts(obs))

    def _seen(self, obs: Any) -> Tensor:
        if self.policy.memory is not None:
            raise NotImplementedError("the policy has a memory; use algo.act(obs), which keeps its state between steps")
        return self.encode(obs)

    def act(self, obs: Tensor, exploration: Exploration | None = None, rng: torch.Generator | None = None) -> Tensor:
        """Return actions ``(n, actions)`` in [−1, 1], or numbers ``(n,)`` of discrete ones.

        Args:
            obs: Encoded observations ``(n, inputs)``.
            exploration: With which to act; None for the policy's best actions.
            rng: Its source of randomness.
        """
        if exploration is None:
            return self.policy.act(obs)
        assert rng is not None
        return exploration.act(self.policy, obs, rng)

    @override(TorchRLModule)
    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTIONS: self._shaped(self.act(self._seen(batch[Columns.OBS]), None))}

    @override(TorchRLModule)
    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        obs = self._seen(batch[Columns.OBS])
        rng = torch.Generator(device=obs.device).manual_seed(int(torch.randint(2**62, ())))
        return {Columns.ACTIONS: self._shaped(self.act(obs, self._exploration, rng))}

    @override(TorchRLModule)
    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        raise NotImplementedError("the learner updates from a Sample; see interreplay.rllib.algorithms.learner")

    def _shaped(self, actions: Tensor) -> Tensor:
        if isinstance(self.action_space, gym.spaces.Discrete):
            return actions + int(self.action_space.start)
        shape = flat_actions(self.action_space).shape or ()
        return actions.reshape(len(actions), *shape)
