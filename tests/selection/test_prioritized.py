"""Prioritized selection: probabilities, weights, and the rows whose priorities an update changes."""

import itertools

import numpy as np
import pytest
import torch
from builders import make
from scipy.stats import chisquare

from interreplay import Storage
from interreplay.selection import Prioritized, Uniform
from interreplay.selection.credit import InterpolatedPriority
from replay_buffers import NMER


def filled(rows: int = 50, capacity: int = 80, **arguments) -> tuple[Storage, Prioritized]:
    storage, selector = Storage(capacity), Prioritized(**arguments)
    selector.observe(storage, storage.add(make(rows)))
    return storage, selector


def errors(n: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(2).normal(size=n) * 3)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_frequencies_and_probabilities(alpha):
    storage, selector = filled(alpha=alpha, eps=0.01)
    selector.update(torch.arange(50), errors(50))
    expected = (errors(50).abs().numpy() + 0.01) ** alpha
    expected /= expected.sum()
    rng, counts = np.random.default_rng(0), np.zeros(80)
    for _ in range(75):
        slots, probabilities = selector.select(storage, 512, rng)
        counts += np.bincount(slots.numpy(), minlength=80)
        assert probabilities.numpy() == pytest.approx(expected[slots.numpy()], rel=1e-5)
    assert counts[50:].sum() == 0
    # stratified draws vary less than independent ones, so the statistic is never too large
    assert chisquare(counts[:50], expected * counts.sum()).pvalue > 1e-4


def test_draws_are_stratified():
    storage, selector = filled()
    for seed in range(20):
        slots, _ = selector.select(storage, 50, np.random.default_rng(seed))
        assert np.bincount(slots.numpy(), minlength=50).max() <= 2, "50 equal rows, 50 strata"
        assert (slots.diff() >= 0).all()


def test_importance_weights():
    for final_beta, first_beta, progress in itertools.product((1.0, 0.0), (0.4, 0.0), (0.0, 0.25, 1.0, 7.0)):
        storage, selector = filled(alpha=0.7, beta=first_beta, final_beta=final_beta)
        selector.update(torch.arange(50), errors(50))
        selector.anneal(progress)
        beta = first_beta + (final_beta - first_beta) * min(progress, 1.0)
        assert selector.current_beta == pytest.approx(beta)
        _, probabilities = selector.select(storage, 30, np.random.default_rng(0))
        expected = (50 * probabilities.numpy().astype(float)) ** -beta
        assert selector.weights(storage, probabilities).numpy() == pytest.approx(expected / expected.max(), rel=1e-5)


def test_new_rows_get_the_largest_priority_so_far():
    storage, selector = filled(20)
    assert selector.priorities(torch.arange(20)).tolist() == [1.0] * 20
    selector.update(torch.tensor([3, 4]), torch.tensor([-5.0, 0.1]))
    selector.update(torch.tensor([3]), torch.tensor([0.2]))
    selector.observe(storage, storage.add(make(2)))
    assert selector.priorities(torch.tensor([3, 4, 20, 21])).tolist() == pytest.approx([0.2, 0.1, 5.0, 5.0], abs=1e-5)


def test_the_last_error_of_a_duplicate_row_is_used():
    storage, selector = filled(20, eps=0.5)
    slots = torch.from_numpy(np.random.default_rng(0).integers(0, 20, 500))
    deltas = torch.rand(500)
    selector.update(slots, deltas)
    expected = {slot: delta + 0.5 for slot, delta in zip(slots.tolist(), deltas.tolist(), strict=True)}
    rows = torch.tensor(list(expected))
    assert selector.priorities(rows).tolist() == pytest.approx(list(expected.values()))
    assert selector.largest == pytest.approx(max(expected.values())), "not the largest of earlier errors"
    powers = np.array(list(expected.values())) ** 0.6
    assert selector.probabilities(rows).numpy() == pytest.approx(powers / powers.sum(), rel=1e-5)


def test_non_finite_errors_are_rejected_and_change_nothing():
    _, selector = filled(20)
    before = selector.probabilities(torch.arange(20))
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match="td_errors hold"):
            selector.update(torch.arange(3), torch.tensor([1.0, bad, 2.0]))
    with pytest.raises(ValueError, match="td_errors hold inf; expected finite float32 numbers"):
        selector.update(torch.arange(3), torch.tensor([1.0, 1e300, 2.0], dtype=torch.float64))
    assert torch.equal(selector.probabilities(torch.arange(20)), before)
    assert selector.largest == 1.0


def test_a_loaded_state_uses_the_configured_alpha():
    for alpha in (0.0, 0.3, 1.0):
        storage, before = filled(alpha=0.6)
        before.update(torch.arange(40), errors(40))
        after, expected = Prioritized(alpha=alpha), Prioritized(alpha=alpha)
        after.load_state_dict(before.state_dict())
        expected.observe(storage, torch.arange(50))
        expected.update(torch.arange(40), errors(40))
        slots = torch.arange(50)
        assert torch.allclose(after.probabilities(slots), expected.probabilities(slots), rtol=1e-6)
        assert float(after._tree.total()) == pytest.approx(float(expected._tree.total()))


def buffer(credit: InterpolatedPriority | None = None, **arguments) -> NMER:
    made = NMER(capacity=60, k=3, selector=Prioritized(eps=0.01), credit=credit, seed=0, **arguments)
    made.add(make(60, ends=0.02))
    return made


def raw(of: NMER) -> np.ndarray:
    return of.selector.priorities(torch.arange(60)).double().numpy()


def updates(n: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=n)


def test_only_the_anchor_is_updated_by_default():
    nmer = buffer()
    sample, expected = nmer.sample(40), raw(nmer)
    for slot, error in zip(sample.slots.tolist(), updates(40), strict=True):
        expected[slot] = abs(error) + 0.01
    nmer.update(sample, updates(40))
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
                share = shares[row]
                expected[partners[row]] = (1 - share) * abs(updates(40)[row]) + share * before[partners[row]] + 0.01
        for row in rows:
            expected[slots[row]] = shares[row] * abs(updates(40)[row]) + (1 - shares[row]) * before[slots[row]] + 0.01
        nmer.update(sample, updates(40))
        assert raw(nmer) == pytest.approx(expected, rel=1e-5)
        seen |= {partner >= 0 for partner in partners}
    assert seen == {True, False}


def test_interpolated_weights_of_anchor_and_neighbor():
    nmer = buffer(InterpolatedPriority(), prob_interpolation=0.7)
    nmer.update(nmer.sample(40), updates(40))
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
