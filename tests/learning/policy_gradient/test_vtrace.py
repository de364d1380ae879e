"""V-trace compared with its definition as a sum over products, and at its limits."""

import math

import pytest
import torch

from interreplay.learning.policy_gradient.vtrace import vtrace

T, B = 7, 5


def columns(seed=0, dtype=torch.float64, steps=T):
    """Return log ratios, values, rewards and discounts, a fifth of which are 0."""
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=dtype)  # noqa: E731
    discounts = torch.where(torch.rand(steps, B, generator=g) < 0.2, 0.0, 0.9).to(dtype)
    return draw(steps, B), draw(steps + 1, B), draw(steps, B), discounts


def naive(log_ratios, values, rewards, discounts, live=None, keep=None, rho=1.0, c=1.0, pg_rho=1.0, lam=1.0):
    """Return the sum of equation (1) of arXiv:1802.01561 with explicit products, in O(T²).

    v_s = V_s + Σ_{t≥s} γ^{t−s} (Π_{s≤i<t} c_i) δ_t; a step that is not kept ends the sum and is excluded.
    """
    steps, size = log_ratios.shape
    counts = torch.ones_like(log_ratios) if keep is None else keep.to(log_ratios)
    ratio = log_ratios.exp() * (1.0 if live is None else live.to(log_ratios))
    targets, advantages = values.clone(), torch.zeros_like(log_ratios)
    for b in range(size):
        for s in range(steps):
            for t in range(s, steps):
                product = 1.0
                for i in range(s, t):
                    product *= float(counts[i, b] * discounts[i, b] * lam * min(c, ratio[i, b]))
                error = rewards[t, b] + discounts[t, b] * values[t + 1, b] - values[t, b]
                targets[s, b] += product * counts[t, b] * min(rho, ratio[t, b]) * error
        for s in range(steps):
            following = rewards[s, b] + discounts[s, b] * targets[s + 1, b] - values[s, b]
            advantages[s, b] = counts[s, b] * min(pg_rho, ratio[s, b]) * following
    return targets, advantages


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{}, {"rho": 2.0, "c": 1.5, "pg_rho": 0.7}, {"lam": 0.8, "c": 0.5}, {"rho": math.inf}], ids=str
)
@pytest.mark.parametrize("masks", ["none", "live", "keep", "both", "shares"])
def test_vtrace_equals_its_definition(options, masks):
    given = columns(1)
    g = torch.Generator().manual_seed(2)
    live = torch.rand(T, B, generator=g) < 0.8 if masks in ("live", "both") else None
    keep = torch.rand(T, B, generator=g) < 0.7 if masks in ("keep", "both") else None
    if masks == "shares":
        keep = torch.rand(T, B, generator=g, dtype=torch.float64)
    close(vtrace(*given, live, keep, **options), naive(*given, live, keep, **options))


def test_far_off_policy_nothing_is_learned_and_ratios_without_end_are_bounded():
    log_ratios, *rest = columns(6, torch.float32)
    targets, advantages = vtrace(torch.full_like(log_ratios, -1e4), *rest)
    assert torch.equal(targets, rest[0]) and not advantages.any()
    close(vtrace(torch.full_like(log_ratios, 1e4), *rest), vtrace(torch.zeros_like(log_ratios), *rest))
    live = torch.zeros(T, B, dtype=torch.bool)
    targets, advantages = vtrace(torch.full_like(log_ratios, 1e4), *rest, live=live, rho=math.inf, pg_rho=math.inf)
    assert torch.equal(targets, rest[0]) and not advantages.any()


def test_results_have_no_gradient_and_arguments_do_not_change():
    given = [column.requires_grad_() for column in columns(7)]
    before = [column.detach().clone() for column in given]
    targets, advantages = vtrace(*given)
    assert not targets.requires_grad and not advantages.requires_grad
    assert all(map(torch.equal, given, before))
    assert torch.equal(targets[-1], given[1][-1])


def test_columns_that_do_not_fit_are_named():
    log_ratios, values, rewards, discounts = columns()
    with pytest.raises(ValueError, match=r"rewards has shape \(6, 5\); expected \(7, 5\)"):
        vtrace(log_ratios, values, rewards[1:], discounts)
    with pytest.raises(ValueError, match="log_ratios"):
        vtrace(log_ratios, values[1:], rewards[1:], discounts[1:])
