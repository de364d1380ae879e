"""SAC with the initial weights of Flax: LeCun normal weights and zero biases."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from interreplay.learning.actor_critic.sac import SACUpdate
from interreplay.rllib import SACConfig
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm

STD_OF_TRUNCATED = 0.87962566
"""Standard deviation of the standard normal distribution truncated at ±2."""


class LeCunUpdate(SACUpdate):
    """SAC's update, which initializes the weights of its networks again.

    Weights are normal, truncated at two standard deviations, with variance 1/fan_in (LeCun et al. 1998, Efficient
    BackProp).
    """

    def __init__(self, networks: Any, *args: Any, **options: Any):
        with torch.no_grad():
            for layers in (networks.actor.body, networks.critics):
                for weight, bias in zip(layers.weights, layers.biases, strict=True):
                    std = 1.0 / math.sqrt(weight.shape[1]) / STD_OF_TRUNCATED
                    nn.init.trunc_normal_(weight, std=std, a=-2.0 * std, b=2.0 * std)
                    nn.init.zeros_(bias)
            networks.targets.load_state_dict(networks.critics.state_dict())
        super().__init__(networks, *args, **options)


class LeCunSACConfig(SACConfig):
    """Settings of `LeCunSAC`."""

    update_class = LeCunUpdate


class LeCunSAC(OffPolicyAlgorithm):
    """SAC with the initial weights of Flax: ``--trainer benchmarks.learning.lecun_sac:LeCunSAC``."""

    config_class = LeCunSACConfig
