"""Implicit quantile networks compared with loops, and their reduction to quantile regression."""

import math

import pytest
import torch

from interreplay.learning.value.implicit import COSINES, Implicit, ImplicitLayers
from interreplay.learning.value.value_heads import Quantiles

pytestmark = pytest.mark.usefixtures("float64")
N, K = 6, 5


def naive_loss(quantiles, fractions, targets, kappa):
    """Σ_i mean_j |τ_i − 1{u < 0}|·L_κ(u)/κ of u = target_j − quantile_i, one pair at a time."""
    losses = torch.zeros(len(quantiles))
    for row in range(len(quantiles)):
        for theta, tau in zip(quantiles[row], fractions[row], strict=True):
            for target in targets[row]:
                u = float(target - theta)
                huber = 0.5 * u * u if abs(u) <= kappa else kappa * (abs(u) - 0.5 * kappa)
                losses[row] += abs(float(tau) - (u < 0)) * huber / kappa / targets.shape[1]
    return losses


def test_the_loss_is_that_of_a_loop_with_fractions_per_row():
    head = Implicit(K, kappa=0.4)
    g = torch.Generator().manual_seed(0)
    quantiles, targets = torch.randn(N, K, generator=g), 2 * torch.randn(N, K, generator=g)
    fractions = torch.rand(N, K, generator=g)
    chosen, target = torch.cat([quantiles, fractions], 1), torch.cat([targets, torch.rand(N, K, generator=g)], 1)
    found = head.compare(chosen, target)
    torch.testing.assert_close(found.losses, naive_loss(quantiles, fractions, targets, 0.4), rtol=0, atol=1e-12)


def test_midpoints_are_quantile_regression():
    head, plain = Implicit(K, kappa=0.7), Quantiles(K, kappa=0.7)
    g = torch.Generator().manual_seed(1)
    quantiles, following = torch.randn(N, K, generator=g), torch.randn(N, K, generator=g)
    rewards, discounts = torch.randn(N, generator=g), torch.rand(N, generator=g)
    levels = plain.levels.to(quantiles).expand(N, K)
    target = head.target(torch.cat([following, levels], 1), rewards, discounts)
    expected = plain.target(following, rewards, discounts)
    found = head.compare(torch.cat([quantiles, levels], 1), target)
    torch.testing.assert_close(found.losses, plain.compare(quantiles, expected).losses, rtol=0, atol=1e-12)
    assert torch.equal(head.values(torch.cat([quantiles, levels], 1)), plain.values(quantiles))


def test_the_layers_are_their_formula():
    layers = ImplicitLayers(3, 2, K, (7, 4))
    rows, fractions = torch.randn(N, 3), torch.rand(N, K)
    found = layers.outputs(rows, fractions)
    assert found.shape == (N, 2, 2 * K)
    for row in range(N):
        features = torch.relu(layers.shared[0](rows[row]))
        for k in range(K):
            cosines = torch.tensor([math.cos(math.pi * i * float(fractions[row, k])) for i in range(COSINES)])
            mixed = features * torch.relu(layers.embedding(cosines))
            expected = layers.last(torch.relu(layers.hidden(mixed)))
            torch.testing.assert_close(found[row, :, k], expected, rtol=0, atol=1e-12)
            assert (found[row, :, K + k] == fractions[row, k]).all()
    plain = layers.outputs(rows)[0, 0, K:]
    torch.testing.assert_close(plain, (torch.arange(K) + 0.5) / K)


def test_a_pass_draws_uniform_fractions_per_row():
    layers = ImplicitLayers(3, 2, 64, (8,))
    drawn = layers.outputs(torch.zeros(200, 3), layers.draw_noise(torch.Generator().manual_seed(0)))[:, 0, 64:]
    counts = torch.histc(drawn, 10, 0, 1) / drawn.numel()
    assert (counts - 0.1).abs().max() < 0.01 and len(drawn[:, 0].unique()) == 200
