"""Priority updates compared with their formulas, row by row."""

import numpy as np
import pytest
import torch
from builders import make

from interreplay.selection import Prioritized, Uniform
from interreplay.selection.credit import InterpolatedPriority
from replay_buffers import NMER


def buffer(credit: InterpolatedPriority | None = None, **arguments) -> NMER:
    made = NMER(capacity=60, k=3, selector=Prioritized(eps=0.01), credit=credit, seed=0, **arguments)
    made.add(make(60, ends=0.02))
    return made


def raw(of: NMER) -> np.ndarray:
    return of.selector.priorities(torch.arange(60)).double().numpy()


def errors(n: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=n)


def test_only_the_anchor_is_updated_by_default():
    nmer = buffer()
    sample, expected = nmer.sample(40), raw(nmer)
    for slot, error in zip(sample.slots.tolist(), errors(40), strict=True):
        expected[slot] = abs(error) + 0.01
    nmer.update(sample, errors(40))
    assert raw(nmer) == pytest.approx(expected, rel=1e-6)


def test_interpolated_priorities_of_anchor_and_neighbor():
    nmer = buffer(InterpolatedPriority(), prob_interpolation=0.7)
    seen: set[bool] = set()
    for _ in range(5):
        sample, before = nmer.sample(40), raw(nmer)
        expected, rows = before.copy(), range(40)
        shares, partners, slots = sample.mix.tolist(), sample.neighbor_slots.tolist(), sample.slots.tolist()
        for row in rows:
            if partners[row] >= 0:
                expected[partners[row]] = (
                    (1 - shares[row]) * abs(errors(40)[row]) + shares[row] * before[partners[row]] + 0.01
                )
        for row in rows:
            expected[slots[row]] = shares[row] * abs(errors(40)[row]) + (1 - shares[row]) * before[slots[row]] + 0.01
        nmer.update(sample, errors(40))
        assert raw(nmer) == pytest.approx(expected, rel=1e-5)
        seen |= {partner >= 0 for partner in partners}
    assert seen == {True, False}


def test_interpolated_weights_of_anchor_and_neighbor():
    nmer = buffer(InterpolatedPriority(), prob_interpolation=0.7)
    nmer.update(nmer.sample(40), errors(40))
    powers = raw(nmer) ** nmer.selector.alpha
    sample = nmer.sample(40)
    weights = (60 * powers / powers.sum()) ** -nmer.selector.beta
    shares, partners, slots = sample.mix.numpy(), sample.neighbor_slots.numpy(), sample.slots.numpy()
    expected = shares * weights[slots] + (1 - shares) * weights[np.where(partners >= 0, partners, slots)]
    assert sample.weights.numpy() == pytest.approx(expected / expected.max(), rel=1e-4)


def test_overwritten_neighbors_are_not_updated():
    nmer = buffer(InterpolatedPriority())
    sample = nmer.sample(40)
    nmer.add(make(30, seed=9))
    before = raw(nmer)
    nmer.update(sample, np.full(40, 50.0))
    assert np.array_equal(raw(nmer)[:30], before[:30])
    assert (raw(nmer)[30:] > 5).any()


def test_interpolated_priorities_need_priorities():
    with pytest.raises(ValueError, match="need the selector Prioritized; got Uniform"):
        NMER(capacity=10, selector=Uniform(), credit=InterpolatedPriority())
