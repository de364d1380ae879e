"""The RLModules: networks of `interreplay.learning` behind RLlib's interface."""

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
from interreplay.environments.actions import check_action_space
from interreplay.environments.spaces import flat_actions, name_parts, space_to_record
from interreplay.learning.architectures import (
    ARCHITECTURES,
    COMMON,
    Architecture,
    assemble,
    build_encoder,
    resolve_model,
)
from interreplay.learning.exploration import Exploration, Gaussian, Sampled
from interreplay.learning.policies import POLICY_OUTPUT, Policy


def share_statistics(nets: Any) -> None:
    """Share the encoder's statistics of observations with the target encoder, if there is one."""
    target: Any = getattr(nets, "target_encoder", None)
    if target is None:
        return
    for path, buffer in nets.encoder.named_buffers():
        module, _, name = path.rpartition(".")
        setattr(target.get_submodule(module), name, buffer)


class OffPolicyModule(TorchRLModule, InferenceOnlyAPI):
    """Actor, critics, targets; actions are in [−1, 1] and are scaled by the runner, or by RLlib's connectors.

    Discrete actions are numbers from 0 on.

    ``model_config`` contains ``architecture``, the name of the networks; ``hiddens``, the widths of the hidden layers;
    ``matrix_dtype`` of the products between them; ``exploration``, which `forward_exploration` copies; and the settings
    of the architecture.

    Attributes:
        architecture: Creates the networks.
        nets: The networks, including the policy as ``actor`` and the encoder of observations.
    """

    framework = "torch"
    architecture: Architecture
    nets: Any
    action_space: gym.Space
    observation_space: gym.Space
    model_config: dict[str, Any]
    inference_only: bool

    def __init__(self, *args: Any, **kwargs: Any):
        # RLlib's constructor creates an object of a deprecated class, and warns about it once.
        log_once("RLModule(config=[RLModuleConfig object])")
        super().__init__(*args, **kwargs)

    @override(RLModule)
    def setup(self) -> None:
        self.architecture = ARCHITECTURES[self.model_config["architecture"]]
        check_action_space(self.action_space, self.architecture.acts_in)
        self._model = resolve_model(self.architecture, self.observation_space, self.model_config)
        encoder, width = self.make_encoder()
        self.nets = assemble(self.make_networks(width), encoder, self._model)
        exploration = copy.deepcopy(self.model_config.get("exploration"))
        if exploration is None:
            exploration = Sampled() if self.policy.stochastic else Gaussian()
        self._exploration: Exploration = exploration
        self._exploration.check(self.policy)
        if not self.inference_only and _has_parameters(encoder) and _has_parameters(self.nets.targets):
            self.nets.target_encoder = copy.deepcopy(encoder).requires_grad_(False)
            share_statistics(self.nets)

    def make_encoder(self) -> tuple[nn.Module, int]:
        """Return the encoder of observations, and the width of its output."""
        return build_encoder(self.observation_space, self._model)

    def make_networks(self, inputs: int) -> nn.Module:
        """Return networks for encoded observations of a width, only the ``actor`` if `inference_only`."""
        return self.architecture.make(inputs, flat_actions(self.action_space), self._model, self.inference_only)

    def described(self, normalized: bool, **about: Any) -> dict[str, Any]:
        """Return a description of the policy for checkpoints, ready for JSON; `about` are other metadata."""
        methods = OffPolicyModule.make_encoder, OffPolicyModule.make_networks
        if any(getattr(type(self), method.__name__) is not method for method in methods):
            return {"format": stored_policy.FORMAT, "own_code": f"{type(self).__module__}.{type(self).__qualname__}"}
        names = (*COMMON, *self.architecture.settings)
        return {
            "format": stored_policy.FORMAT,
            "architecture": self.model_config["architecture"],
            "observation_space": space_to_record(self.observation_space),
            "action_space": space_to_record(self.action_space),
            "model": {name: self.model_config[name] for name in names if name in self.model_config},
            "normalized": normalized,
            **about,
        }

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self.nets.actor

    @torch.no_grad()
    def policy_output(self, obs: Any) -> Tensor:
        """Return the policy's output for stored observations ``(n, ...)``, as runners record it when they act."""
        return self.policy.record(self.policy.output(self.encode(obs)))[POLICY_OUTPUT]

    @override(InferenceOnlyAPI)
    def get_non_inference_attributes(self) -> list[str]:
        parts = {name.partition(".")[0] for name, _ in self.nets.named_parameters()}
        return [f"nets.{name}" for name in sorted(parts - {"actor", "encoder"})]

    def encode(self, obs: Any) -> Tensor:
        """Return encoded observations ``(n, d)`` for stored ones, or for RLlib's."""
        return self.nets.encoder(name_parts(obs))

    def _encode_without_memory(self, obs: Any) -> Tensor:
        if self.policy.memory is not None:
            raise NotImplementedError("the policy has a memory; use algo.act(obs), which keeps its state between steps")
        return self.encode(obs)

    @override(TorchRLModule)
    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTIONS: self._reshape(self.policy.act(self._encode_without_memory(batch[Columns.OBS])))}

    @override(TorchRLModule)
    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        obs = self._encode_without_memory(batch[Columns.OBS])
        rng = torch.Generator(device=obs.device).manual_seed(int(torch.randint(2**62, ())))
        return {Columns.ACTIONS: self._reshape(self._exploration.act(self.policy, obs, rng))}

    @override(TorchRLModule)
    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        raise NotImplementedError("the learner updates from a Sample; see interreplay.rllib.algorithms.learner")

    def _reshape(self, actions: Tensor) -> Tensor:
        if isinstance(self.action_space, gym.spaces.Discrete):
            return actions + int(self.action_space.start)
        shape = flat_actions(self.action_space).shape or ()
        return actions.reshape(len(actions), *shape)


def _has_parameters(net: nn.Module) -> bool:
    return next(net.parameters(), None) is not None
