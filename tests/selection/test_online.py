"""Online and combined selection: the newest rows."""

import numpy as np
import pytest
import torch
from builders import identical, make

from interreplay.selection import Prioritized
from replay_buffers import CER, PER, Online, Uniform


def test_online_returns_the_newest_rows_first():
    for rows in (5, 8, 9, 20):
        given, buffer = make(rows), Online(capacity=8, seed=0)
        for row in range(rows):
            buffer.add(given[row : row + 1])
        sample = buffer.sample(4)
        assert torch.equal(sample.transitions.obs, given.obs.flip(0)[:4])
        assert torch.equal(sample.probabilities, torch.full((4,), 0.25)) and (sample.weights == 1).all()


def test_online_repeats_rows_until_the_batch_is_full():
    buffer = Online(capacity=8)
    buffer.add(make(3))
    sample = buffer.sample(7)
    assert sample.slots.tolist() == [2, 1, 0, 2, 1, 0, 2]
    counts = np.bincount(sample.slots, minlength=3) / 7
    assert np.allclose(sample.probabilities, counts[sample.slots])


@pytest.mark.parametrize("selector", [None, Prioritized()], ids=["uniform", "prioritized"])
def test_cer_always_contains_the_newest_row(selector):
    buffer, given = CER(capacity=50, selector=selector, seed=0), make(130)
    for row in range(130):
        (newest,) = buffer.add(given[row : row + 1])
        sample = buffer.sample(16)
        assert sample.slots[-1] == newest and len(sample) == 16
        identical(sample.transitions[15:], buffer.storage[newest.reshape(1)])
    assert buffer.sample(1).slots.tolist() == [int(newest)] and buffer.sample(1).probabilities == 1


def test_other_rows_of_cer_are_drawn_by_the_inner_selector():
    given = make(80)
    for inner, recipe in ((None, Uniform), (Prioritized(), PER)):
        plain, combined = recipe(capacity=50, seed=1), CER(capacity=50, selector=inner, seed=1)
        for buffer in (plain, combined):
            buffer.add(given[:50])
            buffer.add(given[50:])
        assert torch.equal(combined.sample(16).slots[:-1], plain.sample(15).slots)


def test_probabilities_of_combined_prioritized_rows():
    buffer = CER(capacity=20, selector=Prioritized(beta=1.0), seed=0)
    slots = buffer.add(make(20))
    buffer.selector.update(slots, torch.linspace(0.1, 3, 20))
    sample, inner = buffer.sample(10), buffer.selector.inner
    expected = 0.9 * inner.probabilities(sample.slots) + 0.1 * (sample.slots == 19)
    assert torch.allclose(sample.probabilities, expected)
    weights = 1 / (20 * expected)
    assert torch.allclose(sample.weights, weights / weights.max())
