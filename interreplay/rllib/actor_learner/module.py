"""The RLModule of algorithms that learn from unrolls."""

from __future__ import annotations

import gymnasium as gym
from ray.rllib.utils.annotations import override
from torch import nn

from interreplay.learning.policy_value import CategoricalWithValue, NormalWithValue, PolicyValueNetworks
from interreplay.rllib.algorithms.module import OffPolicyModule

OF_NETWORKS = ("encoder", "conv_dtype", "shared_layers", "free_log_std", "initial_log_std")
"""Settings that networks are made by, beside those of every algorithm."""


class ActorLearnerModule(OffPolicyModule):
    """A policy and its value; ``model_config`` also has `OF_NETWORKS`."""

    acts_in, settings = (gym.spaces.Box, gym.spaces.Discrete), OF_NETWORKS

    @override(OffPolicyModule)
    def make_networks(self, inputs: int, actions: int) -> nn.Module:
        model = self.model_config
        widths = (inputs, actions, model["hiddens"], model["shared_layers"])
        if isinstance(self.action_space, gym.spaces.Discrete):
            return PolicyValueNetworks(CategoricalWithValue(*widths))
        return PolicyValueNetworks(NormalWithValue(*widths, model["free_log_std"], model["initial_log_std"]))
