"""Residual networks: values and gradients against plain PyTorch in float64, SimBa's sizes, and initial weights."""

import copy
import math

import pytest
import torch

from interreplay.learning.networks.residual_layers import ResidualGaussian, ResidualMLP
from tests.learning.plain_torch import (
    assert_bfloat16_is_close,
    assert_plain_outputs_and_gradients,
    plain_outputs,
    random_float64,
)

ROWS, INPUTS, WIDTH, COUNT = 7, 4, 6, 3


def networks(blocks=2, activation="relu", outputs=1):
    """Residual networks in float64, with random γ, β and biases."""
    torch.manual_seed(0)
    made = ResidualMLP(COUNT, INPUTS, WIDTH, blocks, outputs).double()
    made.activation = activation
    for parameter in (*made.scales, *made.shifts, *made.biases):
        parameter.data += 0.3 * torch.randn_like(parameter)
    return made


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("chosen", [None, [2, 0], [1]], ids=str)
def test_outputs_and_gradients_are_those_of_plain_networks(chosen, blocks, activation, grouping):
    x = random_float64(ROWS, INPUTS).requires_grad_()
    assert_plain_outputs_and_gradients(networks(blocks, activation), x, None, chosen)


@pytest.mark.parametrize(("width", "parameters"), [(512, 4_215_297), (128, 267_393)])
def test_the_published_number_of_parameters(width, parameters):
    critic = ResidualMLP(1, 23, width, 2, 1)
    assert sum(parameter.numel() for parameter in critic.parameters()) == parameters


def test_the_start_is_orthogonal_and_he_normal():
    torch.manual_seed(0)
    made = ResidualMLP(2, 16, 64, 1, 3)
    for network in range(2):
        first, inner, outer, last = (weight[network].detach() for weight in made.weights)
        torch.testing.assert_close(first @ first.T, torch.eye(16), atol=1e-5, rtol=0)
        torch.testing.assert_close(last.T @ last, torch.eye(3), atol=1e-5, rtol=0)
        assert float(inner.std()) == pytest.approx(math.sqrt(2 / 64), rel=0.03)
        assert float(outer.std()) == pytest.approx(math.sqrt(2 / 256), rel=0.03)
    assert not torch.equal(made.weights[0][0], made.weights[0][1])
    assert not any(bias.any() for bias in (*made.biases, *made.shifts))
    before = copy.deepcopy(made)
    made.reset(torch.Generator().manual_seed(3))
    drawn = copy.deepcopy(made)
    made.reset(torch.Generator().manual_seed(3))
    assert all(map(torch.equal, made.parameters(), drawn.parameters()))
    assert not torch.equal(before.weights[1], made.weights[1])


def test_the_standard_deviation_is_bounded_smoothly():
    policy = ResidualGaussian(1, INPUTS, 8, 1, 4).double()
    x = random_float64(ROWS, INPUTS)
    mean, log_std = policy(x).chunk(2, dim=1)
    plain_mean, raw = plain_outputs(policy, x)[0].chunk(2, dim=1)
    torch.testing.assert_close(mean, plain_mean)
    torch.testing.assert_close(log_std, -10.0 + 6.0 * (1.0 + torch.tanh(raw)))
    with torch.no_grad():
        policy.biases[-1][..., 2:] = torch.tensor([1e3, -1e3])
    torch.testing.assert_close(policy(x)[:, 2:], torch.tensor([2.0, -10.0], dtype=torch.float64).expand(ROWS, 2))


def test_bfloat16_products_stay_near_float32(grouping):
    torch.manual_seed(0)
    assert_bfloat16_is_close(ResidualMLP(2, 4, 64, 2, 1), torch.randn(ROWS, 4, requires_grad=True))
