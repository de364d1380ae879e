"""V-trace compared with its definition as a sum over products, with manual computations, and at its limits."""

from __future__ import annotations

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
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{}, {"rho": 2.0, "c": 1.5, "pg_rho": 0.7}, {"lam": 0.8, "c": 0.5}, {"rho": math.inf}], ids=str
)
@pytest.mark.parametrize("masks", ["none", "live", "keep", "both"])
def test_it_is_its_definition(options, masks):
    given = columns(1)
    g = torch.Generator().manual_seed(2)
    live = torch.rand(T, B, generator=g) < 0.8 if masks in ("live", "both") else None
    keep = torch.rand(T, B, generator=g) < 0.7 if masks in ("keep", "both") else None
    close(vtrace(*given, live, keep, **options), naive(*given, live, keep, **options))


def test_two_steps_against_manual_computation():
    # π/µ = 2 and 1/2, V = 1, 2, 3, r = 1, 2, γ = 1/2: δ₁ = ½(2 + ½·3 − 2) = ¾, δ₀ = 1·(1 + ½·2 − 1) = 1.
    log_ratios = torch.tensor([[2.0], [0.5]]).log()
    values, rewards = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.0], [2.0]])
    targets, advantages = vtrace(log_ratios, values, rewards, torch.full((2, 1), 0.5))
    assert targets.flatten().tolist() == [1.0 + 1.0 + 0.5 * 0.75, 2.75, 3.0]
    # A₀ = 1 + ½·2.75 − 1, A₁ = ½(2 + ½·3 − 2).
    assert advantages.flatten().tolist() == [1.375, 0.75]
    targets, advantages = vtrace(log_ratios, values, rewards, torch.full((2, 1), 0.5), rho=4.0, c=2.0, pg_rho=2.0)
    assert targets.flatten().tolist() == [1.0 + 2.0 + 2.0 * 0.5 * 0.75, 2.75, 3.0]
    assert advantages.flatten().tolist() == [2.75, 0.75]


def test_a_step_that_is_not_kept_ends_what_follows_it_and_counts_itself_for_nothing():
    log_ratios, values, rewards, _ = columns(3, steps=3)
    discounts = torch.full((3, B), 0.9, dtype=torch.float64)
    keep = torch.ones(3, B, dtype=torch.bool)
    keep[1] = False
    targets, advantages = vtrace(log_ratios, values, rewards, discounts, keep=keep)
    assert torch.equal(targets[1], values[1]) and not advantages[1].any()
    first = log_ratios[0].exp().clamp(max=1.0) * (rewards[0] + 0.9 * values[1] - values[0])
    torch.testing.assert_close(targets[0], values[0] + first)
    torch.testing.assert_close(advantages[0], first)  # the step before it bootstraps from its value


def test_keep_may_be_shares():
    given = columns(4)
    keep = torch.rand(T, B, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    close(vtrace(*given, keep=keep), naive(*given, keep=keep))


def generalized_advantages(values, rewards, terminated, ends, gamma, lam):
    """Return GAE (arXiv:1506.02438) of one environment, step by step; `ends` mark both terminated and truncated steps.

    `values` ``(T, 2)`` has the values of each step's observation and next observation.
    """
    found, running = [0.0] * len(rewards), 0.0
    for t in reversed(range(len(rewards))):
        future = 0.0 if terminated[t] else values[t][1]
        running = rewards[t] + gamma * future - values[t][0] + (0.0 if ends[t] else gamma * lam * running)
        found[t] = running
    return found


@pytest.mark.parametrize("lam", [1.0, 0.9])
def test_on_policy_targets_are_lambda_returns_also_over_a_truncation(lam):
    # One environment, 9 rows: an episode terminates after row 2, is reset in row 3, another is cut after row 6.
    values = torch.randn(10, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    rewards = torch.arange(9, dtype=torch.float64)
    terminated, truncated = torch.zeros(9, dtype=torch.bool), torch.zeros(9, dtype=torch.bool)
    terminated[2], truncated[6] = True, True
    live = torch.ones(9, dtype=torch.bool)
    live[3] = live[7] = False
    discounts = 0.9 * (~terminated).double()
    column = [x.unsqueeze(1) for x in (torch.zeros(9, dtype=torch.float64), values, rewards, discounts, live)]
    targets, advantages = vtrace(*column, lam=lam)
    rows = [0, 1, 2, 4, 5, 6, 8]
    seen = [(float(values[t]), float(values[t + 1])) for t in rows]
    ends = [bool(terminated[t] | truncated[t]) for t in rows]
    expected = generalized_advantages(seen, rewards[rows].tolist(), terminated[rows].tolist(), ends, 0.9, lam)
    torch.testing.assert_close(targets[rows, 0] - values[rows], torch.tensor(expected, dtype=torch.float64))
    if lam == 1.0:
        torch.testing.assert_close(advantages[rows, 0], torch.tensor(expected, dtype=torch.float64))
    assert torch.equal(targets[[3, 7], 0], values[[3, 7]]) and not advantages[[3, 7]].any()


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


def test_dtypes_are_kept():
    for dtype in (torch.float32, torch.float64):
        assert {x.dtype for x in vtrace(*columns(8, dtype))} == {dtype}


def test_columns_that_do_not_fit_are_named():
    log_ratios, values, rewards, discounts = columns()
    with pytest.raises(ValueError, match=r"rewards has shape \(6, 5\); expected \(7, 5\)"):
        vtrace(log_ratios, values, rewards[1:], discounts)
    with pytest.raises(ValueError, match="log_ratios"):
        vtrace(log_ratios, values[1:], rewards[1:], discounts[1:])
