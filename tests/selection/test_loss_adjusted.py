"""LAP, LA3P and ReLo: priorities, frequencies, weights and losses."""

import numpy as np
import pytest
import torch
from builders import make
from scipy.stats import chisquare

from interreplay import ReplayBuffer
from interreplay.learning.losses import PAL, Huber, RowwiseLoss
from interreplay.neighborhood import KNN
from interreplay.selection import Combined, LossAdjusted
from interreplay.selection.credit import InterpolatedPriority
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Beta
from replay_buffers import LA3P, LAP, ReLo

ROWS = 40
ERRORS = np.random.default_rng(3).normal(size=ROWS) * 4
SIZES = np.maximum(np.abs(ERRORS), 1.0)


def filled(recipe, scores=None, capacity: int = 60, **arguments) -> ReplayBuffer:
    """A buffer in which every row has been updated with its error."""
    buffer = recipe(capacity=capacity, seed=0, **arguments)
    buffer.add(make(ROWS))
    seen = np.zeros(ROWS, bool)
    while not seen.all():
        sample = buffer.sample(64)
        slots = sample.slots.numpy()
        buffer.update(sample, ERRORS[slots], {k: v[slots] for k, v in (scores or {}).items()})
        seen[slots] = True
    return buffer


def count_draws(buffer: ReplayBuffer, part: slice, size: int = 96) -> np.ndarray:
    counts = np.zeros(ROWS)
    for _ in range(200):
        counts += np.bincount(buffer.sample(size).slots[part].numpy(), minlength=ROWS)
    return counts


def agree(counts: np.ndarray, weights: np.ndarray) -> bool:
    return chisquare(counts, weights / weights.sum() * counts.sum()).pvalue > 1e-4


@pytest.mark.parametrize("alpha", [0.4, 1.0])
def test_lap_draws_by_the_clipped_largest_error(alpha):
    largest = {"largest_error": np.abs(ERRORS) + 0.5}
    buffer = filled(LAP, largest, alpha=alpha)
    expected = np.maximum(np.abs(ERRORS) + 0.5, 1.0)
    assert buffer.selector.priorities(torch.arange(ROWS)).numpy() == pytest.approx(expected, rel=1e-6)
    assert agree(count_draws(buffer, slice(None)), expected**alpha)
    sample = buffer.sample(32)
    assert (sample.weights == 1).all() and sample.actor_weights is None and sample.critic_loss == Huber(1.0)


def test_lap_uses_the_td_error_if_the_largest_error_is_not_reported():
    buffer = filled(LAP)
    assert buffer.selector.priorities(torch.arange(ROWS)).numpy() == pytest.approx(SIZES, rel=1e-6)


def test_lap_with_blends_and_with_combined_selection():
    parts = KNN(k=3), Mixup(Beta(0.75)), InterpolatedPriority()
    blending = ReplayBuffer(60, LossAdjusted(), *parts, seed=0)
    blending.add(make(ROWS))
    sample = blending.sample(64)
    assert sample.critic_loss == Huber(1.0) and blending.scores_wanted == {"largest_error"}
    blending.update(sample, np.full(64, 0.1), {"largest_error": np.full(64, 0.2)})
    assert (blending.selector.priorities(torch.arange(ROWS)) >= 1).all()
    combined = ReplayBuffer(60, Combined(LossAdjusted()), seed=0)
    combined.add(make(ROWS))
    sample = combined.sample(64)
    assert sample.critic_loss == Huber(1.0)
    combined.update(sample, np.ones(64), {"largest_error": np.full(64, 7.0)})
    assert float(combined.selector.inner.priorities(sample.slots).max()) == 7.0


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.25, 0.0, 1.0])
def test_la3p_draws_uniform_critic_and_actor_rows(share):
    buffer = filled(LA3P, {"largest_error": np.abs(ERRORS)}, uniform_share=share)
    uniform, critics, actor = counts = buffer.selector.counts(96)
    expected = {0.5: (32, 32, 32), 0.25: (14, 41, 41), 0.0: (0, 48, 48), 1.0: (96, 0, 0)}[share]
    assert counts == expected
    sample = buffer.sample(96)
    assert sample.critic_loss == RowwiseLoss(((uniform, PAL(0.4)), (critics, Huber(1.0)), (actor, Huber(1.0))))
    of_critics = torch.cat([torch.full((uniform + critics,), 96 / (uniform + critics)), torch.zeros(actor)])
    one = 96 / (uniform + actor)
    of_actor = torch.cat([torch.full((uniform,), one), torch.zeros(critics), torch.full((actor,), one)])
    torch.testing.assert_close(sample.weights, of_critics)
    torch.testing.assert_close(sample.actor_weights, of_actor)
    limits = np.cumsum([0, *counts])
    for first, last, weights in zip(limits, limits[1:], (np.ones(ROWS), SIZES**0.4, SIZES**-0.4), strict=False):
        if last > first:
            assert agree(count_draws(buffer, slice(first, last)), weights), (first, last)
    shares = zip(counts, (np.ones(ROWS), SIZES**0.4, SIZES**-0.4), strict=True)
    mixture = sum(n / 96 * weights / weights.sum() for n, weights in shares)
    assert sample.probabilities.numpy() == pytest.approx(mixture[sample.slots.numpy()], rel=1e-4)


def test_la3p_has_rows_for_each_network_in_small_batches():
    for size in (1, 2, 3, 5):
        for share in (0.0, 0.5, 1.0):
            buffer = LA3P(capacity=30, seed=0, uniform_share=share)
            buffer.add(make(10))
            sample = buffer.sample(size)
            assert len(sample) == size and sample.weights.sum() == pytest.approx(size)
            assert sample.actor_weights.sum() == pytest.approx(size)


def test_relo_draws_by_reducible_loss():
    reducible = {"reducible_loss": ERRORS}  # some below 0
    buffer = filled(ReLo, reducible, beta=0.4)
    expected = np.maximum(ERRORS, 0) + 1e-6
    assert buffer.selector.priorities(torch.arange(ROWS)).numpy() == pytest.approx(expected, rel=1e-5)
    weights = expected**0.5
    counts, likely = count_draws(buffer, slice(None)), weights > 0.05
    bins = np.append(counts[likely], counts[~likely].sum())
    assert agree(bins, np.append(weights[likely], weights[~likely].sum()))
    sample = buffer.sample(32)
    of_per = (ROWS * sample.probabilities) ** -0.4
    torch.testing.assert_close(sample.weights, of_per / of_per.max())


def test_relo_requires_its_score():
    buffer = ReLo(capacity=60, seed=0)
    buffer.add(make(ROWS))
    with pytest.raises(ValueError, match="scores hold .*; expected 'reducible_loss'"):
        buffer.update(buffer.sample(8), np.ones(8))
    with pytest.raises(ValueError, match=r"reducible_loss has shape \(8, 1\); expected \(8,\)"):
        buffer.update(buffer.sample(8), np.ones(8), {"reducible_loss": np.ones((8, 1))})
