"""Weights that decay with age: closed forms compared with quadrature, frequencies with enumerated probabilities."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import chisquare

from interreplay import ReplayBuffer
from interreplay.buffer.catalogue import make_buffer
from interreplay.diagnostics import contract
from interreplay.errors import UsageError
from interreplay.selection import (
    Faded,
    LossAdjusted,
    Online,
    Prioritized,
    SampleWeightDecay,
    Uniform,
)
from interreplay.selection.age_decay import ExponentialDecay
from tests.selection.test_recency import by_age, counted, stored


def weight_at(weight, age):
    if isinstance(weight, SampleWeightDecay):
        return max(weight.floor, 1.0 - age / weight.horizon)
    return float(weight.at(np.array([age]))[0])


@pytest.mark.parametrize(
    "weight", [SampleWeightDecay(40, 0.1), SampleWeightDecay(7.5, 0.3), ExponentialDecay(0.9, 0.2)]
)
@pytest.mark.parametrize("count", [1, 5, 30, 90])
def test_integral_and_quantile_follow_the_weight(weight, count):
    ages = np.linspace(0.0, count, 9)
    for age in ages:
        expected = quad(lambda a: weight_at(weight, a), 0, age, points=[min(weight.cut, age)])[0]
        assert weight.integral(np.array([age]))[0] == pytest.approx(expected, abs=1e-7)
    shares = weight.integral(ages) / weight.integral(np.array([float(count)]))
    assert weight.quantile(shares, count) == pytest.approx(ages, abs=1e-9)


DECAYS = [SampleWeightDecay(30, 0.1), SampleWeightDecay(200, 0.5), Faded(rate=0.95, floor=0.1)]
DECAYS.append(ExponentialDecay(0.9999, 0.1))


@pytest.mark.parametrize(("rows", "capacity"), [(50, 80), (130, 50)])
@pytest.mark.parametrize("selector", DECAYS)
def test_frequencies_are_the_integrals_of_the_weight(selector, rows, capacity):
    storage = stored(rows, capacity)
    weight = getattr(selector, "weight", selector)
    areas = np.diff(weight.integral(np.arange(51.0)))
    found = by_age(selector, storage)
    assert found == pytest.approx(areas / areas.sum(), rel=1e-5)
    counts = counted(selector, storage)
    assert chisquare(counts, areas / areas.sum() * counts.sum()).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rows", "capacity"), [(Prioritized, 50, 80), (LossAdjusted, 130, 50)])
def test_fading_multiplies_the_probabilities_of_the_inner_selector(kind, rows, capacity):
    storage = stored(rows, capacity)
    inner = kind(alpha=0.7)
    selector = Faded(inner, rate=0.95, floor=0.1)
    slots = torch.arange(len(storage))
    selector.observe(storage, slots)
    selector.update(slots, torch.linspace(0.5, 4.0, len(storage)))
    ages = (storage.written - 1 - storage.write_numbers(slots)).numpy()
    unnormalized = inner.probabilities(slots).double().numpy() * selector.weight.at(ages)
    rng = np.random.default_rng(0)
    counts = np.zeros(len(storage))
    for _ in range(100):
        drawn, probabilities = selector.select(storage, 512, rng)
        assert len(drawn) == 512
        counts += np.bincount(drawn.numpy(), minlength=len(storage))
        assert probabilities.numpy() == pytest.approx(unnormalized[drawn.numpy()], rel=1e-5)
    assert torch.equal(selector.probabilities(drawn, storage), probabilities)
    assert torch.equal(selector.weights(storage, probabilities), inner.weights(storage, probabilities))
    expected = unnormalized / unnormalized.sum() * counts.sum()
    assert chisquare(counts, expected).pvalue > 1e-4


@pytest.mark.parametrize("limits", [{"rate": 1.0}, {"floor": 1.0}])
@pytest.mark.parametrize("kind", [Uniform, Prioritized, Online])
def test_without_decay_the_inner_selectors_rows_are_drawn(kind, limits):
    storage = stored(130, 50)
    selectors = kind(), Faded(kind(), **limits)
    for selector in selectors:
        selector.observe(storage, torch.arange(50))
    plain, faded = (each.draw(storage, 32, np.random.default_rng(3)) for each in selectors)
    assert torch.equal(plain.slots, faded.slots)
    assert torch.equal(plain.probabilities, faded.probabilities)


def test_the_method_and_the_wrapper_are_created_by_name():
    swd = make_buffer("SWD", capacity=100, horizon=50, seed=0)
    assert swd.selector.horizon == 50
    nested = {"type": "Faded", "rate": 0.9, "selector": {"type": "Prioritized", "alpha": 0.3}}
    made = make_buffer("NMER", capacity=100, selector=nested)
    assert isinstance(made.selector, Faded)
    assert made.selector.inner.alpha == 0.3
    named = make_buffer("NMER", capacity=100, selector={"type": "Faded", "selector": "LossAdjusted"})
    assert isinstance(named.selector.inner, LossAdjusted)
    with pytest.raises(ValueError, match="there is no replay buffer 'SWDD'"):
        make_buffer("SWDD")
    with pytest.raises(UsageError, match="selector 'Prioritised'"):
        make_buffer("NMER", selector={"type": "Faded", "selector": {"type": "Prioritised"}})


class FadedPER(ReplayBuffer):
    """PER that fades within few rows."""

    def __init__(self, *, capacity=1_000_000, **arguments):
        super().__init__(capacity, Faded(Prioritized(), rate=0.98), **arguments)


UP_TO_A_CONSTANT = contract.frequencies


@pytest.mark.parametrize("check", [check for check in contract.CHECKS if check is not UP_TO_A_CONSTANT])
def test_the_contract_around_priorities(check):
    check(contract.Subject(FadedPER))
