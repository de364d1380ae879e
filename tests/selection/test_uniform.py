"""Uniform selection."""

from __future__ import annotations

import numpy as np
import torch
from builders import make
from scipy.stats import chisquare

from interreplay import Storage
from interreplay.selection import Uniform


def test_frequencies():
    storage = Storage(60)
    storage.add(make(40))
    rng = np.random.default_rng(0)
    counts = np.zeros(60)
    for _ in range(200):
        slots, probabilities = Uniform().select(storage, 256, rng)
        counts += np.bincount(slots.numpy(), minlength=60)
        assert torch.equal(probabilities, torch.full((256,), 1 / 40))
    assert counts[40:].sum() == 0
    assert chisquare(counts[:40]).pvalue > 1e-4


def test_weights_are_one():
    storage = Storage(60)
    storage.add(make(40))
    _, probabilities = Uniform().select(storage, 10, np.random.default_rng(0))
    assert Uniform().weights(storage, probabilities).tolist() == [1.0] * 10
