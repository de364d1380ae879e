"""Weights that networks of a policy and its value start with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.networks.layers import BatchedMLP
from interreplay.learning.policy_gradient.policy_value import PolicyValueLayers

GAIN = math.sqrt(2.0)
"""Of layers with ReLU behind them."""
POLICY_GAIN = 0.01
"""Gain of the weights of a policy's last layer: all actions are nearly as likely at the start."""


@torch.no_grad()
def make_orthogonal(networks: nn.Module) -> None:
    """Let convolutions and layers start orthogonal with gain √2, the policy's last one `POLICY_GAIN`, the value's 1.

    As in OpenAI Baselines and Stable-Baselines3's A2C and PPO (Saxe et al. 2014, arXiv:1312.6120; compared by
    Andrychowicz et al. 2021, arXiv:2006.05990). Biases start at zero. PyTorch's own start, uniform within ±1/√fan_in,
    makes the differences between images smaller by 2.4 in every layer.

    Args:
        networks: With an encoder. Weights of an LSTM stay as they are.
    """
    for part in networks.modules():
        if isinstance(part, nn.Conv2d):
            part.weight.copy_(orthogonal(part.weight.shape, GAIN))
            assert part.bias is not None, "our convolutions have one"
            nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Linear):
            part.weight.copy_(orthogonal(part.weight.shape, GAIN))
            nn.init.zeros_(part.bias)
        elif isinstance(part, PolicyValueLayers) and part.widths:
            bodies: list[BatchedMLP] = [*part.bodies]
            for body, outputs in zip(bodies, part.widths, strict=True):
                _make_layers_orthogonal(body, values=body is bodies[-1], outputs=outputs)
    for part in networks.modules():
        if isinstance(part, PolicyValueLayers) and not part.widths:
            for listed, gain in zip(part.bodies, (POLICY_GAIN, 1.0), strict=True):
                last: Any = listed.last_linear
                if last is not None:
                    last.weight.copy_(orthogonal(last.weight.shape, gain))


def _make_layers_orthogonal(body: BatchedMLP, values: bool, outputs: int) -> None:
    """Let the layers of one network start so.

    Args:
        body: Its last layer gives numbers of the policy, the value, or both.
        values: Whether the last of these is the value.
        outputs: How many numbers it gives.
    """
    for weight, bias in zip(body.weights, body.biases, strict=True):
        weight[0] = orthogonal(weight[0].shape, GAIN)
        nn.init.zeros_(bias)
    last = body.weights[-1][0]
    last[:, : outputs - values] = orthogonal((len(last), outputs - values), POLICY_GAIN)
    last[:, outputs - values :] = orthogonal((len(last), int(values)), 1.0)


def orthogonal(shape: Sequence[int], gain: float) -> Tensor:
    """Return weights of a shape, as a matrix of its first side orthogonal times `gain`."""
    weights = torch.empty(*shape)
    return nn.init.orthogonal_(weights, gain) if weights.numel() else weights
