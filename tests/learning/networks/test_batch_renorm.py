"""Batch renormalization against the paper's definition in loops, and against PyTorch's batch normalization."""

import copy
import math

import pytest
import torch
from torch.nn.functional import batch_norm

from interreplay.learning.networks.batch_renorm import BatchRenorm, RenormedMLP

WIDTH, ROWS = 3, 6


def made(shift=0.0, spread=1.0):
    """Return two networks with running statistics of a batch around `shift` with deviations of `spread`."""
    torch.manual_seed(0)
    norm = BatchRenorm(2, WIDTH).double()
    with torch.no_grad():
        norm.scale.uniform_(0.5, 1.5)
        norm.bias.uniform_(-1, 1)
        norm.mean.normal_().add_(shift)
        norm.variance.uniform_(0.5, 1.5).mul_(spread**2)
    return norm, torch.randn(ROWS, WIDTH, dtype=torch.float64) * 2 + 0.5


def naive(norm, rows, j, warm):
    """Return y, running mean and running variance after a pass, number by number; μ_B and σ_B have gradients."""
    out, means, variances, clipped = [], [], [], []
    for f in range(WIDTH):
        column, old_mean, old_variance = rows[:, f], norm.mean[j, f].item(), norm.variance[j, f].item()
        mean = sum(column) / len(column)
        variance = sum((x - mean) ** 2 for x in column) / len(column)
        sigma, running = (variance + 1e-3).sqrt(), math.sqrt(old_variance + 1e-3)
        r = min(max(sigma.item() / running, 1 / 3), 3.0) if warm else 1.0
        d = min(max((mean.item() - old_mean) / running, -5.0), 5.0) if warm else 0.0
        clipped.append((r in (1 / 3, 3.0), abs(d) == 5.0))
        normalized = [(x - mean) / sigma * r + d for x in column]
        out.append(torch.stack([norm.scale[j, f] * x + norm.bias[j, f] for x in normalized]))
        means.append(0.99 * old_mean + 0.01 * mean.item())
        variances.append(0.99 * old_variance + 0.01 * variance.item())
    return torch.stack(out, 1), torch.tensor([means, variances], dtype=torch.float64), clipped


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("shift", "spread", "r_clipped", "d_clipped"),
    [(0.5, 2.0, False, False), (100.0, 2.0, False, True), (0.5, 0.1, True, True), (-3.0, 100.0, True, False)],
)
def test_a_training_pass_is_the_papers(shift, spread, r_clipped, d_clipped, warm):
    norm, rows = made(shift, spread)
    rows.requires_grad_()
    for j in range(2):
        before = copy.deepcopy(norm)
        expected, statistics, clipped = naive(before, rows, j, warm)
        if warm:
            assert [any(part) for part in zip(*clipped, strict=True)] == [r_clipped, d_clipped]
        found = norm.training_pass(rows, j, torch.tensor(warm))
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(torch.stack([norm.mean[j], norm.variance[j]]), statistics, rtol=1e-12, atol=0)
        assert torch.equal(norm.mean[1 - j], before.mean[1 - j]), "the other network's stay"
        g = torch.randn(ROWS, WIDTH, dtype=torch.float64)
        mine = torch.autograd.grad((found * g).sum(), [rows, norm.scale, norm.bias])
        theirs = torch.autograd.grad((expected * g).sum(), [rows, before.scale, before.bias])
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_during_warm_up_it_is_batch_normalization_and_frozen_with_the_running_statistics():
    norm, rows = made(3.0, 2.0)
    expected = batch_norm(rows, None, None, norm.scale[1], norm.bias[1], training=True, eps=1e-3)
    assert torch.equal(norm.training_pass(rows, 1, warmed_up=torch.tensor(False)), expected)
    before = copy.deepcopy(norm)
    by_hand = (rows - norm.mean[1]) / (norm.variance[1] + 1e-3).sqrt() * norm.scale[1] + norm.bias[1]
    torch.testing.assert_close(norm.by_running(rows, 1), by_hand)
    torch.testing.assert_close(norm.by_running(rows[:1], 1), by_hand[:1])
    assert all(torch.equal(a, b) for a, b in zip(norm.state_dict().values(), before.state_dict().values(), strict=True))


def test_a_batch_like_the_running_statistics_is_normalized_by_them():
    """r and d undo the batch's own statistics: renormalized and frozen passes agree for any batch."""
    norm, rows = made(0.5, 2.0)
    frozen = norm.by_running(rows, 0)
    torch.testing.assert_close(norm.training_pass(rows, 0, warmed_up=torch.tensor(True)), frozen)


def test_networks_normalize_the_input_and_every_activation_and_count_their_warm_up():
    torch.manual_seed(0)
    layers = RenormedMLP(2, [WIDTH, 5, 4, 1], warm_up=2).double()
    assert [norm.mean.shape[1] for norm in layers.norms] == [WIDTH, 5, 4]
    for passes in range(4):
        rows = torch.randn(8, WIDTH, dtype=torch.float64) + passes
        reference, found = copy.deepcopy(layers), layers.outputs(rows, training=True)
        for j in range(2):
            x = rows
            for i, norm in enumerate(reference.norms):
                x = norm.training_pass(x, j, warmed_up=torch.tensor(passes >= 2))
                x = x @ reference.weights[i][j] + reference.biases[i][j]
                x = x.clamp(min=0) if i < 2 else x
            torch.testing.assert_close(found[j], x)
        assert int(layers.trained) == passes + 1
        for mine, theirs in zip(layers.norms, reference.norms, strict=True):
            torch.testing.assert_close(mine.mean, theirs.mean)
            torch.testing.assert_close(mine.variance, theirs.variance)
    state = {name: value.clone() for name, value in layers.state_dict().items()}
    with torch.no_grad():
        without = layers.outputs(rows)
    torch.testing.assert_close(without, layers.outputs(rows))
    assert all(torch.equal(state[name], value) for name, value in layers.state_dict().items())
    assert {"trained", "norms.0.mean", "norms.2.variance"} <= state.keys(), "what a checkpoint holds"
