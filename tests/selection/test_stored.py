"""Selectors draw from whatever is written in turn: it need not be rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from interreplay.selection import Attentive, Combined, Elite, Online, Prioritized, Selector, Uniform


class Unrolls:
    """A ring of sequences, of which a selector sees no more than how many there are and when they were written."""

    def __init__(self, capacity: int):
        self.capacity, self.written, self.device = capacity, 0, torch.device("cpu")

    def __len__(self) -> int:
        return min(self.written, self.capacity)

    def write_numbers(self, slots: torch.Tensor) -> torch.Tensor:
        return self.written - 1 - (self.written - 1 - slots) % self.capacity


@pytest.mark.parametrize("make", [Uniform, Online, Prioritized, Combined, lambda: Combined(Prioritized())])
@pytest.mark.parametrize("written", [3, 14])
def test_slots_of_what_is_stored_with_their_probabilities(make: Callable[[], Selector], written: int):
    stored = Unrolls(8)
    rng = np.random.default_rng(0)
    selector = make()
    for number in range(written):
        slots = torch.tensor([number % 8])
        if number >= 8:
            selector.evict(stored, slots)
        stored.written += 1
        selector.observe(stored, slots)
    slots, probabilities = selector.select(stored, 5, rng)
    assert slots.shape == probabilities.shape == (5,) and (slots < len(stored)).all() and (probabilities > 0).all()
    if isinstance(selector, Online):
        assert slots[0] == (written - 1) % 8
    if isinstance(selector, Combined):
        assert slots[-1] == (written - 1) % 8
    if selector.knows_probabilities:
        everything = torch.arange(len(stored))
        assert float(selector.probabilities(everything, stored).sum()) == pytest.approx(1.0, rel=1e-5)
    selector.update(slots, torch.ones(5))
    assert selector.weights(stored, probabilities).shape == (5,)


@pytest.mark.parametrize("selector", [Uniform(), Online(), Combined()])
def test_what_keeps_no_priorities_says_so(selector):
    assert not selector.supports_priorities
    with pytest.raises(NotImplementedError, match=f"{type(selector).__name__} keeps no priorities"):
        selector.priorities(torch.tensor([0]))


@pytest.mark.parametrize("kind", [Attentive, lambda **given: Elite(strategy=1, **given)], ids=["attentive", "elite"])
def test_candidates_are_ranked_by_any_distance(kind):
    """Here by how long ago they were written."""
    stored, rng = Unrolls(50), np.random.default_rng(0)
    selector = kind(multiplier=10.0, distance_fn=lambda stored, slots: stored.written - stored.write_numbers(slots))
    for number in range(80):
        stored.written += 1
        selector.observe(stored, torch.tensor([number % 50]))
    slots, _ = selector.select(stored, 4, rng)
    ages = stored.written - stored.write_numbers(slots)
    assert ages.tolist() == sorted(ages.tolist()) and ages.max() < 12, "the newest of 40 of 50"
