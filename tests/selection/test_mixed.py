"""Mixtures of selectors: exact shares, probabilities of the mixture, errors for all selectors."""

import numpy as np
import pytest
import torch
from builders import identical, make, require_same_samples
from scipy.stats import chisquare

from interreplay import ReplayBuffer
from interreplay.selection import ActorPrioritized, Combined, LossAdjusted, MixedSelection, Online, Prioritized, Uniform
from interreplay.storage.ring import Storage
from replay_buffers import NMER
from replay_buffers import Uniform as UniformBuffer


def stored(rows=40, selector=None):
    """Rows that a selector has observed, with priorities 1, 2, 3, ..."""
    storage = Storage(rows)
    slots = storage.add(make(rows))
    selector.observe(storage, slots)
    selector.update(slots, selector.errors_of(1.0 + torch.arange(rows), {"largest_error": 1.0 + torch.arange(rows)}))
    return storage


def halves(**shares):
    return MixedSelection({"all": Uniform(), "hard": Prioritized(alpha=1.0, beta=1.0, final_beta=1.0)}, shares or None)


def test_shares_are_exact_and_origins_kept():
    selector = halves(hard=0.25)
    draw = selector.draw(stored(selector=selector), 40, np.random.default_rng(0))
    assert draw.origins.bincount().tolist() == [30, 10]
    assert len(draw.slots) == len(draw.weights) == 40


@pytest.mark.parametrize("inner", [Uniform, Prioritized, Online, lambda: Combined(Prioritized())])
def test_one_selector_is_that_selector(inner):
    alone, mixed = UniformBuffer(capacity=50, seed=1), UniformBuffer(capacity=50, seed=1)
    alone.selector, mixed.selector = inner(), MixedSelection({"only": inner()})
    for number in range(3):
        for buffer in (alone, mixed):
            buffer.add(make(30, seed=number))
        one, other = alone.sample(16), mixed.sample(16)
        identical(one.transitions, other.transitions)
        assert torch.equal(one.slots, other.slots) and torch.equal(one.weights, other.weights)
        errors = torch.linspace(-1, 3, 16)
        alone.update(one, errors)
        mixed.update(other, errors)


def test_probabilities_are_those_of_the_mixture():
    selector = halves(hard=0.3)
    storage = stored(selector=selector)
    raw = np.arange(1.0, 41.0)
    expected = 0.7 / 40 + 0.3 * raw / raw.sum()
    found = selector.probabilities(torch.arange(40), storage)
    assert np.allclose(found, expected, rtol=1e-4)
    rng, counts = np.random.default_rng(0), np.zeros(40)
    for _ in range(200):
        draw = selector.draw(storage, 50, rng)
        counts += np.bincount(draw.slots, minlength=40)
        assert torch.equal(draw.probabilities, selector.probabilities(draw.slots, storage))
    assert chisquare(counts, 10_000 * expected).pvalue > 1e-3


def test_probabilities_of_a_selector_that_composes_batches_are_those_of_its_draw():
    selector = MixedSelection({"all": Uniform(), "both": ActorPrioritized()}, {"both": 0.5})
    storage = stored(selector=selector)
    rng = np.random.default_rng(0)
    draw = selector.draw(storage, 60, rng)
    alone = selector.selectors["both"].draw(storage, 30, rng)
    own = dict(zip(alone.slots.tolist(), alone.probabilities.tolist(), strict=True))
    both = dict(zip(draw.slots[30:].tolist(), draw.probabilities[30:].tolist(), strict=True))
    shared = own.keys() & both.keys()
    assert shared and all(both[slot] == pytest.approx(own[slot] / 2) for slot in shared)


def test_weights_are_those_of_the_selector_that_drew_the_row():
    selector = halves()
    storage = stored(selector=selector)
    draw = selector.draw(storage, 30, np.random.default_rng(0))
    hard = draw.origins == 1
    own = selector.selectors["hard"].probabilities(draw.slots[hard])
    assert (draw.weights[~hard] == 1).all()
    assert torch.allclose(draw.weights[hard], own.min() / own)


def test_each_selector_receives_the_errors_that_it_requests():
    selector = MixedSelection({"all": Uniform(), "hard": Prioritized(), "largest": LossAdjusted()})
    buffer = UniformBuffer(capacity=30, seed=0)
    buffer.selector = selector
    assert "largest_error" in selector.scores_wanted
    buffer.add(make(30))
    sample = buffer.sample(30)
    errors, largest = torch.full((30,), 2.0), torch.full((30,), 32.0)
    buffer.update(sample, errors, {"largest_error": largest})
    seen = sample.slots.unique()
    assert torch.allclose(selector.selectors["hard"].priorities(seen), torch.tensor(2.0))
    others = [slot for slot in range(30) if slot not in seen]
    known = selector.selectors["largest"].probabilities(torch.tensor([seen[0], *others]), buffer.storage)
    assert known[0] == pytest.approx(4.0 * float(known[1]))  # 32 ** .4 = 4 compared with 1


def test_shares_are_annealed_and_restored():
    selector, again = halves(hard=(0.5, 0.1)), halves(hard=(0.5, 0.1))
    buffers = [NMER(capacity=40, k=3, selector=one, seed=5) for one in (selector, again)]
    for number in range(2):
        buffers[0].add(make(30, seed=number))
        buffers[0].update(buffers[0].sample(7), torch.rand(7))
    buffers[0].anneal(0.75)
    buffers[1].load_state_dict(buffers[0].state_dict())
    assert again.shares.current == pytest.approx({"all": 0.8, "hard": 0.2})
    assert again.selectors["hard"].progress == 0.75
    for _ in range(3):
        require_same_samples(buffers[0].sample(7), buffers[1].sample(7))


def test_statistics_are_prefixed_with_names():
    class WithStatistics(Uniform):
        def statistics(self):
            return {"size": 3.0}

    assert MixedSelection({"a": WithStatistics(), "b": Uniform()}).statistics() == {"a_size": 3.0}


def test_a_mixture_defines_the_critic_loss_if_all_its_selectors_do():
    for others, defined in (({}, True), ({"all": Uniform()}, False)):
        selectors = {"large": LossAdjusted(), "small": ActorPrioritized()}
        buffer = ReplayBuffer(30, MixedSelection(selectors | others))
        buffer.add(make(30))
        sample = buffer.sample(30)
        assert buffer.brings_critic_loss is defined
        assert all(loss is not None for _, loss in sample.critic_loss.parts) is defined
