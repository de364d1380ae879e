"""The networks of DQN: a greedy policy and its target network."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.policies import POLICY_OUTPUT, DiscretePolicy
from interreplay.learning.value.streams import ValueLayers
from interreplay.learning.value.value_heads import ValueHead


class QPolicy(DiscretePolicy):
    """The policy that takes the action with the highest expected return.

    It records the softmax of the expected returns.
    """

    def __init__(self, layers: ValueLayers, head: ValueHead, actions: int):
        super().__init__()
        self.layers = layers
        self.head = head
        self.size = actions
        self.noisy = layers.noisy

    def output(self, obs: Tensor) -> Tensor:
        """Return expected returns ``(n, A)``, without noise."""
        return self.head.values(self.layers.outputs(obs))

    def noisy_output(self, obs: Tensor, rng: torch.Generator) -> Tensor:
        return self.head.values(self.layers.outputs(obs, self.layers.draw_noise(rng)))

    def mode(self, output: Tensor) -> Tensor:
        return output.argmax(dim=-1)

    def record(self, output: Tensor) -> dict[str, Tensor]:
        """Return probabilities ``(n, A)``."""
        return {POLICY_OUTPUT: output.softmax(dim=-1)}


class QNetworks(nn.Module):
    """The policy of DQN and its target network."""

    encoder: Any
    target_encoder: Any

    def __init__(self, layers: ValueLayers, head: ValueHead, actions: int, inference_only: bool = False):
        super().__init__()
        self.actor = QPolicy(layers, head, actions)
        if not inference_only:
            self.targets = copy.deepcopy(layers).requires_grad_(False)
