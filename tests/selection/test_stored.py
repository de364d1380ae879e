"""Selectors draw from any store with numbered slots."""

import numpy as np
import pytest
import torch

from interreplay.selection import Attentive, Combined, Elite, Online, Prioritized, Uniform


class Ring:
    """A ring buffer that exposes only its length and write numbers."""

    def __init__(self, capacity: int):
        self.capacity, self.written, self.device = capacity, 0, torch.device("cpu")

    def __len__(self) -> int:
        return min(self.written, self.capacity)

    def write_numbers(self, slots: torch.Tensor) -> torch.Tensor:
        return self.written - 1 - (self.written - 1 - slots) % self.capacity


def test_slots_probabilities_and_weights():
    for make in (Uniform, Online, Prioritized, Combined, lambda: Combined(Prioritized())):
        for written in (3, 14):
            stored, selector = Ring(8), make()
            for number in range(written):
                slots = torch.tensor([number % 8])
                if number >= 8:
                    selector.evict(stored, slots)
                stored.written += 1
                selector.observe(stored, slots)
            slots, probabilities = selector.select(stored, 5, np.random.default_rng(0))
            assert slots.shape == probabilities.shape == (5,)
            assert (slots < len(stored)).all() and (probabilities > 0).all()
            if isinstance(selector, Online):
                assert slots[0] == (written - 1) % 8
            if isinstance(selector, Combined):
                assert slots[-1] == (written - 1) % 8
            if selector.knows_probabilities:
                everything = torch.arange(len(stored))
                assert float(selector.probabilities(everything, stored).sum()) == pytest.approx(1.0, rel=1e-5)
            selector.update(slots, torch.ones(5))
            assert selector.weights(stored, probabilities).shape == (5,)


@pytest.mark.parametrize("kind", [Attentive, lambda **given: Elite(strategy=1, **given)], ids=["attentive", "elite"])
def test_candidates_are_ranked_by_a_given_distance(kind):
    stored, rng = Ring(50), np.random.default_rng(0)
    selector = kind(multiplier=10.0, distance_fn=lambda stored, slots: stored.written - stored.write_numbers(slots))
    for number in range(80):
        stored.written += 1
        selector.observe(stored, torch.tensor([number % 50]))
    slots, _ = selector.select(stored, 4, rng)
    ages = stored.written - stored.write_numbers(slots)
    assert ages.tolist() == sorted(ages.tolist()) and ages.max() < 12, "the newest of 40 of 50"
