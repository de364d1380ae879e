"""SAC whose networks start as those of Flax: LeCun's normal weights, and biases of zero."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from interreplay.learning.actor_critic.sac import SACUpdate
from interreplay.rllib import SACConfig
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm

STD_OF_TRUNCATED = 0.87962566
"""Standard deviation of a standard normal distribution within ±2."""


class LeCunUpdate(SACUpdate):
    """SAC's update of networks whose parameters it draws from another distribution.

    Weights are normal within two standard deviations, with variance 1/fan_in (LeCun et al. 1998, Efficient BackProp).
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
    """Settings of SAC."""

    update_class = LeCunUpdate


class LeCunSAC(OffPolicyAlgorithm):
    """SAC with these initial weights: ``--trainer benchmarks.learning.lecun_sac:LeCunSAC``."""

    config_class = LeCunSACConfig
