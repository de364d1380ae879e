"""Batch renormalization against the paper's definition in loops. `test_crossq.py` tests networks with it."""

import copy
import math

import pytest
import torch

from interreplay.learning.networks.batch_renorm import BatchRenorm

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
