"""Dormant units of hidden layers."""

import pytest
import torch
from torch import nn

from benchmarks.learning.dormant_units import dormant_share, hidden_activations
from interreplay.learning.networks.layers import BatchedMLP
from interreplay.learning.networks.residual_layers import ResidualMLP


def test_units_that_are_never_active_are_dormant():
    networks = BatchedMLP(2, [3, 4, 8, 1])
    with torch.no_grad():
        networks.biases[1].fill_(10.0)
        networks.biases[1][0, 0, :2] = -1e3
        networks.biases[1][1, 0, 0] = -1e3
        first, second = hidden_activations(networks, torch.randn(50, 3))
    assert first.shape == (2, 50, 4) and second.shape == (2, 50, 8)
    assert dormant_share(second) == 3 / 16


def test_activations_are_those_of_plain_layers():
    networks = BatchedMLP(1, [3, 5, 5, 2], layer_norm=True)
    rows = torch.randn(7, 3)
    with torch.no_grad():
        last = hidden_activations(networks, rows)[-1][0]
        outputs = nn.functional.linear(last, networks.weights[-1][0].T, networks.biases[-1][0, 0])
        assert torch.allclose(outputs, networks.outputs(rows)[0], atol=1e-6)


def test_residual_networks_are_rejected():
    networks = ResidualMLP(1, 3, 8, 1, 1)
    with pytest.raises(SystemExit, match="critic_blocks 0"):
        hidden_activations(networks, torch.randn(7, 3))
