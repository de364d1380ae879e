"""Residual networks: values and gradients against plain PyTorch in float64, SimBa's sizes, and initial weights."""

import copy
import math

import pytest
import torch

from interreplay.learning.networks import batched_layers
from interreplay.learning.networks.residual_layers import ResidualGaussian, ResidualMLP
from tests.learning.plain_torch import plain_outputs

ROWS, INPUTS, WIDTH, COUNT = 7, 4, 6, 3


def float64(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def networks(blocks=2, activation="relu", outputs=1):
    """Residual networks in float64, with random γ, β and biases."""
    torch.manual_seed(0)
    made = ResidualMLP(COUNT, INPUTS, WIDTH, blocks, outputs).double()
    made.activation = activation
    for parameter in (*made.scales, *made.shifts, *made.biases):
        parameter.data += 0.3 * torch.randn_like(parameter)
    return made


@pytest.fixture(params=["one after the other", "all at once"])
def grouping(request, monkeypatch):
    if request.param == "all at once":
        monkeypatch.setattr(batched_layers, "at_once", lambda device: True)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("chosen", [None, [2, 0], [1]], ids=str)
def test_outputs_and_gradients_are_those_of_plain_networks(chosen, blocks, activation, grouping):
    layers = networks(blocks, activation)
    count = COUNT if chosen is None else len(chosen)
    x = float64(ROWS, INPUTS).requires_grad_()
    gradients = float64(count, ROWS, 1, seed=5)
    gradients[0, :3] = 0.0  # rows without a gradient are skipped
    expected = plain_outputs(layers, x, None, chosen)
    found = layers.outputs(x, None, chosen)
    torch.testing.assert_close(found, expected)
    with torch.no_grad():
        torch.testing.assert_close(layers.outputs(x, None, chosen), expected)
    required = [x, *layers.parameters()]
    plain_gradients = torch.autograd.grad(expected, required, gradients)
    for ours, theirs in zip(torch.autograd.grad(found, required, gradients), plain_gradients, strict=True):
        torch.testing.assert_close(ours, theirs)
    frozen = layers.outputs([x[:, :1].detach(), x[:, 1:]], None, chosen, frozen=True)
    (of_rows,) = torch.autograd.grad(frozen, [x], gradients)
    torch.testing.assert_close(of_rows[:, 1:], plain_gradients[0][:, 1:])


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
    x = float64(ROWS, INPUTS)
    mean, log_std = policy(x).chunk(2, dim=1)
    plain_mean, raw = plain_outputs(policy, x)[0].chunk(2, dim=1)
    torch.testing.assert_close(mean, plain_mean)
    torch.testing.assert_close(log_std, -10.0 + 6.0 * (1.0 + torch.tanh(raw)))
    with torch.no_grad():
        policy.biases[-1][..., 2:] = torch.tensor([1e3, -1e3])
    torch.testing.assert_close(policy(x)[:, 2:], torch.tensor([2.0, -10.0], dtype=torch.float64).expand(ROWS, 2))


def test_bfloat16_products_stay_near_float32(grouping):
    torch.manual_seed(0)
    layers, x = ResidualMLP(2, 4, 64, 2, 1), torch.randn(ROWS, 4, requires_grad=True)
    gradients = torch.randn(2, ROWS, 1)
    required = [x, *layers.parameters()]
    exact = layers.outputs(x)
    exact_gradients = torch.autograd.grad(exact, required, gradients)
    layers.matrix_dtype = torch.bfloat16
    rough = layers.outputs(x)
    assert rough.dtype == torch.float32
    for ours, theirs in zip(
        [rough, *torch.autograd.grad(rough, required, gradients)], [exact, *exact_gradients], strict=True
    ):
        assert (ours - theirs).norm() <= 0.1 * theirs.norm()
