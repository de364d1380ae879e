"""Selection by age: ERE's mixture and the truncated geometric distribution compared with their definitions."""

import numpy as np
import pytest
import torch
from builders import make
from scipy.stats import chisquare

from interreplay import Storage
from interreplay.selection import EmphasizedRecent, TruncatedGeometric, Uniform


def stored(rows: int, capacity: int) -> Storage:
    storage = Storage(capacity)
    for start in range(0, rows, capacity):
        storage.add(make(min(capacity, rows - start)))
    return storage


def counted(selector, storage: Storage, draws: int = 400, size: int = 256) -> np.ndarray:
    """Number of draws of each age; reported probabilities equal those of `probabilities`."""
    rng, counts = np.random.default_rng(0), np.zeros(len(storage))
    for _ in range(draws):
        slots, probabilities = selector.select(storage, size, rng)
        ages = (storage.written - 1 - storage.write_numbers(slots)).numpy()
        counts += np.bincount(ages, minlength=len(storage))
        assert torch.equal(selector.probabilities(slots, storage), probabilities)
    return counts


def by_age(selector, storage: Storage) -> np.ndarray:
    """P(age i) of every stored row."""
    slots = torch.from_numpy((storage.written - 1 - np.arange(len(storage))) % storage.capacity)
    return selector.probabilities(slots, storage).double().numpy()


def mixture(count: int, eta: float, c_min: int) -> np.ndarray:
    """ERE's P(age i): the probability that ⌊v·c⌋ = i with v ~ U(0, 1), averaged over many u."""
    u = (np.arange(200_000) + 0.5) / 200_000
    c = np.maximum(count * eta ** (1_000 * u), min(c_min, count))
    return np.array([(np.clip(c - i, 0.0, 1.0) / c).mean() for i in range(count)])


@pytest.mark.parametrize(
    ("eta", "c_min", "rows", "capacity"),
    [(0.996, 5, 50, 80), (0.996, 5, 130, 50), (0.99, 3, 130, 50), (0.9995, 5, 50, 80), (0.996, 40, 130, 50)],
)
def test_ere_is_the_mixture_of_the_paper(eta, c_min, rows, capacity):
    storage, selector = stored(rows, capacity), EmphasizedRecent(eta, c_min)
    expected = mixture(50, eta, c_min)
    assert by_age(selector, storage) == pytest.approx(expected, rel=1e-3, abs=1e-7)
    assert by_age(selector, storage).sum() == pytest.approx(1, abs=1e-5)
    counts = counted(selector, storage)
    assert chisquare(counts, expected / expected.sum() * counts.sum()).pvalue > 1e-4


def test_ere_with_at_most_c_min_rows_is_uniform():
    for rows in (1, 4, 5):
        assert by_age(EmphasizedRecent(0.99, 5), stored(rows, 10)) == pytest.approx(np.full(rows, 1 / rows))


def test_annealed_ere_ends_at_its_last_eta():
    selector = EmphasizedRecent(0.99, 5, final_eta=1.0)
    storage = stored(50, 50)
    assert by_age(selector, storage) == pytest.approx(by_age(EmphasizedRecent(0.99, 5), storage))
    selector.anneal(0.5)
    assert selector.current_eta == pytest.approx(0.995)
    assert by_age(selector, storage) == pytest.approx(by_age(EmphasizedRecent(0.995, 5), storage))
    selector.anneal(7.0)
    assert by_age(selector, storage) == pytest.approx(np.full(50, 0.02))
    resumed = EmphasizedRecent(0.99, 5, final_eta=1.0)
    resumed.load_state_dict(selector.state_dict())
    assert resumed.current_eta == 1.0
    selector = EmphasizedRecent(0.99, 5)
    selector.anneal(1.0)
    assert selector.current_eta == 0.99


@pytest.mark.parametrize(
    ("mean_age", "rows", "capacity"), [(0.01, 50, 80), (0.1, 130, 50), (0.3, 50, 80), (0.45, 130, 50), (0.4999, 50, 80)]
)
def test_truncated_geometric_is_geometric_with_the_given_mean_age(mean_age, rows, capacity):
    storage, selector = stored(rows, capacity), TruncatedGeometric(mean_age)
    found = by_age(selector, storage)
    assert found.sum() == pytest.approx(1, abs=1e-5)
    assert found @ np.arange(50) == pytest.approx(mean_age * 49, rel=1e-4)
    assert found[1:] / found[:-1] == pytest.approx(np.full(49, found[1] / found[0]), rel=1e-4)
    counts, likely = counted(selector, storage), found * 400 * 256 > 5
    assert counts @ np.arange(50) / counts.sum() == pytest.approx(mean_age * 49, rel=0.02)
    bins = np.append(counts[likely], counts[~likely].sum()), np.append(found[likely], found[~likely].sum())
    bins = [part[: len(part) - (likely.all())] for part in bins]
    assert chisquare(bins[0], bins[1] / bins[1].sum() * bins[0].sum()).pvalue > 1e-4


def test_the_mean_age_is_exact_for_few_and_many_rows():
    for count in (1, 2, 3, 10_000, 1_000_000):
        for mean_age in (1e-6, 0.3, 0.4999999):
            selector, ages = TruncatedGeometric(mean_age), np.arange(count)
            found = selector.age_probabilities(count, ages)
            assert found.sum() == pytest.approx(1) and found @ ages == pytest.approx(mean_age * (count - 1), rel=1e-6)
            drawn = selector.ages(count, 1_000, np.random.default_rng(0))
            assert drawn.min() >= 0 and drawn.max() < count


@pytest.mark.parametrize("selector", [EmphasizedRecent(eta=1.0, c_min=3), TruncatedGeometric(0.5)])
def test_selectors_by_age_reduce_to_uniform(selector):
    storage = stored(30, 40)
    assert by_age(selector, storage) == pytest.approx(np.full(30, 1 / 30))
    counts = counted(selector, storage)
    assert chisquare(counts).pvalue > 1e-4
    slots, probabilities = Uniform().select(storage, 8, np.random.default_rng(0))
    assert torch.equal(selector.select(storage, 8, np.random.default_rng(0))[1], probabilities)
