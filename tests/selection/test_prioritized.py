"""Prioritized selection against the formulas of the paper."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders import make
from scipy.stats import chisquare

from interreplay import Storage
from interreplay.selection import Prioritized
from interreplay.storage import row_table
from replay_buffers import PER


def filled(rows: int = 50, capacity: int = 80, **arguments) -> tuple[Storage, Prioritized]:
    storage, selector = Storage(capacity), Prioritized(**arguments)
    selector.observe(storage, storage.add(make(rows)))
    return storage, selector


def errors(n: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(2).normal(size=n) * 3)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_frequencies_and_probabilities(alpha):
    storage, selector = filled(alpha=alpha, eps=0.01)
    selector.update(torch.arange(50), errors(50))
    expected = (errors(50).abs().numpy() + 0.01) ** alpha
    expected /= expected.sum()
    rng, counts = np.random.default_rng(0), np.zeros(80)
    for _ in range(300):
        slots, probabilities = selector.select(storage, 256, rng)
        counts += np.bincount(slots.numpy(), minlength=80)
        assert probabilities.numpy() == pytest.approx(expected[slots.numpy()], rel=1e-5)
    assert counts[50:].sum() == 0
    # one draw per stratum varies less than independent ones, so the statistic is a little too small, never too large
    assert chisquare(counts[:50], expected * counts.sum()).pvalue > 1e-4


def test_draws_are_stratified():
    storage, selector = filled()
    for seed in range(20):
        slots, _ = selector.select(storage, 50, np.random.default_rng(seed))
        assert np.bincount(slots.numpy(), minlength=50).max() <= 2, "50 equal rows, 50 strata"
        assert (slots.diff() >= 0).all()


@pytest.mark.parametrize("progress", [0.0, 0.25, 1.0, 7.0])
def test_weights(progress):
    storage, selector = filled(alpha=0.7, beta=0.4)
    selector.update(torch.arange(50), errors(50))
    selector.anneal(progress)
    beta = 0.4 + 0.6 * min(progress, 1.0)
    assert selector.current_beta == pytest.approx(beta)
    _, probabilities = selector.select(storage, 30, np.random.default_rng(0))
    expected = (50 * probabilities.numpy().astype(float)) ** -beta
    assert selector.weights(storage, probabilities).numpy() == pytest.approx(expected / expected.max(), rel=1e-5)


def test_without_importance_sampling_all_weights_are_1():
    storage, selector = filled(beta=0.0, final_beta=0.0)
    selector.anneal(0.7)
    _, probabilities = selector.select(storage, 30, np.random.default_rng(0))
    assert (selector.weights(storage, probabilities) == 1).all()


def test_new_rows_get_the_largest_priority_so_far():
    storage, selector = filled(20)
    assert selector.priorities(torch.arange(20)).tolist() == [1.0] * 20
    selector.update(torch.tensor([3, 4]), torch.tensor([-5.0, 0.1]))
    selector.update(torch.tensor([3]), torch.tensor([0.2]))
    selector.observe(storage, storage.add(make(2)))
    assert selector.priorities(torch.tensor([3, 4, 20, 21])).tolist() == pytest.approx([0.2, 0.1, 5.0, 5.0], abs=1e-5)


@pytest.mark.parametrize("numpy", [True, False])
def test_of_a_row_that_comes_twice_the_last_error_counts(numpy, monkeypatch):
    monkeypatch.setattr("interreplay.selection.prioritized.shares_numpy", lambda device: numpy)
    storage, selector = filled(20, eps=0.5)
    slots = torch.from_numpy(np.random.default_rng(0).integers(0, 20, 500))
    deltas = torch.rand(500)
    selector.update(slots, deltas)
    expected = {slot: delta + 0.5 for slot, delta in zip(slots.tolist(), deltas.tolist(), strict=True)}
    rows = torch.tensor(list(expected))
    assert selector.priorities(rows).tolist() == pytest.approx(list(expected.values()))
    powers = np.array(list(expected.values())) ** 0.6
    assert selector.probabilities(rows).numpy() == pytest.approx(powers / powers.sum(), rel=1e-5)


def test_an_overwritten_largest_error_of_a_duplicate_does_not_count():
    _, selector = filled(20)
    selector.update(torch.tensor([1, 1]), torch.tensor([99.0, 2.0]))
    assert selector.largest == pytest.approx(2.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_errors_that_are_not_finite_are_refused_and_change_nothing(bad):
    storage, selector = filled(20)
    before = selector.probabilities(torch.arange(20))
    with pytest.raises(ValueError, match="td_errors hold"):
        selector.update(torch.arange(3), torch.tensor([1.0, bad, 2.0]))
    assert torch.equal(selector.probabilities(torch.arange(20)), before)
    assert selector.largest == 1.0


def test_alpha_zero_is_uniform():
    buffer = PER(capacity=40, alpha=0.0, seed=0)
    buffer.add(make(40))
    buffer.update(buffer.sample(40), np.random.default_rng(0).normal(size=40) * 100)
    counts = np.zeros(40)
    for _ in range(200):
        sample = buffer.sample(64)
        counts += np.bincount(sample.slots.numpy(), minlength=40)
        assert sample.weights.tolist() == [1.0] * 64
        assert sample.probabilities.numpy() == pytest.approx(1 / 40)
    assert chisquare(counts).pvalue > 1e-4


def test_bytes_are_those_that_are_taken():
    _, selector = filled(50, 5000)
    assert selector.nbytes(5000, 3) == selector._raw.numel() * 4 + sum(
        level.numel() * 8 for level in selector._tree.levels
    )


@pytest.mark.parametrize("arguments", [{"alpha": -0.1}, {"beta": 1.5}, {"beta": -0.1}, {"eps": 0.0}])
def test_bad_arguments(arguments):
    (name, value), *_ = arguments.items()
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        Prioritized(**arguments)


def test_numpy_is_used_where_it_shares_memory():
    assert row_table.shares_numpy(torch.device("cpu")) and not row_table.shares_numpy(torch.device("cuda"))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_a_loaded_state_follows_the_alpha_of_the_configuration(alpha):
    storage, before = filled(alpha=0.6)
    before.update(torch.arange(40), errors(40))
    after, wanted = Prioritized(alpha=alpha), Prioritized(alpha=alpha)
    after.load_state_dict(before.state_dict())
    wanted.observe(storage, torch.arange(50))
    wanted.update(torch.arange(40), errors(40))
    slots = torch.arange(50)
    assert torch.allclose(after.probabilities(slots), wanted.probabilities(slots), rtol=1e-6)
    assert float(after._tree.total()) == pytest.approx(float(wanted._tree.total()))
