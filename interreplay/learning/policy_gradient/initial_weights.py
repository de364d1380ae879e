"""Orthogonal initial weights of networks with a policy and a value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.networks.layers import BatchedMLP
from interreplay.learning.policy_gradient.policy_value import PolicyValueLayers

GAIN = math.sqrt(2.0)
"""Gain of the weights of layers followed by ReLU."""
POLICY_GAIN = 0.01
"""Gain of the weights of a policy's last layer: initially, all actions are nearly equally likely."""


@torch.no_grad()
def make_orthogonal(networks: nn.Module) -> None:
    """Initialize weights orthogonally with gain √2, in the policy's last layer `POLICY_GAIN`, in the value's 1.

    As in OpenAI Baselines and Stable-Baselines3's A2C and PPO (Saxe et al. 2014, arXiv:1312.6120; compared by
    Andrychowicz et al. 2021, arXiv:2006.05990). Biases are set to zero. PyTorch's default, uniform within
    ±1/√fan_in, reduces the differences between images by a factor of 2.4 in every layer.
    """
    for part in networks.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            part.weight.copy_(orthogonal(part.weight.shape, GAIN))
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, PolicyValueLayers) and part.widths:
            bodies: list[BatchedMLP] = [*part.bodies]
            for body, outputs in zip(bodies, part.widths, strict=True):
                for weight, bias in zip(body.weights, body.biases, strict=True):
                    weight[0] = orthogonal(weight[0].shape, GAIN)
                    nn.init.zeros_(bias)
                last = body.weights[-1][0]
                numbers = outputs - (body is bodies[-1])  # the last output of the last network is the value
                last[:, :numbers] = orthogonal((len(last), numbers), POLICY_GAIN)
                last[:, numbers:] = orthogonal((len(last), outputs - numbers), 1.0)
    for part in networks.modules():
        if isinstance(part, PolicyValueLayers) and not part.widths:
            for listed, gain in zip(part.bodies, (POLICY_GAIN, 1.0), strict=True):
                layer: Any = listed.last_linear
                if layer is not None:
                    layer.weight.copy_(orthogonal(layer.weight.shape, gain))


def orthogonal(shape: Sequence[int], gain: float) -> Tensor:
    """Return weights of a shape: an orthogonal matrix, with the first dimension as rows, times `gain`."""
    weights = torch.empty(*shape)
    return nn.init.orthogonal_(weights, gain) if weights.numel() else weights
