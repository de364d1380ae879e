"""Methods that mix an anchor with a neighbor: NaiveMixup, ContinuousTransition, KNNOutcome, and what they share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders import identical, make, same_sample
from scipy.stats import kstest

from interreplay import ReplayBuffer
from interreplay.neighborhood.knn_index.brute_force import nearest
from interreplay.selection import Prioritized
from interreplay.synthesis.coefficient import Uniform as UniformCoefficient
from replay_buffers import NMER, ContinuousTransition, KNNOutcome, NaiveMixup, Uniform

DICT = {"obs_shape": {"observation": (3,), "goal": (2,)}}
BLENDING = {
    "naive": NaiveMixup,
    "fixed CT": lambda **arguments: ContinuousTransition(**({"alpha": 0.75} | arguments)),
    "adaptive CT": ContinuousTransition,
    "NMER": NMER,
}
ALL = BLENDING | {"outcome": KNNOutcome}


def filled(recipe, rows: int = 300, kind: dict | None = None, **arguments) -> ReplayBuffer:
    buffer = recipe(**({"capacity": 200, "seed": 0} | arguments))
    given = make(rows, envs=3, **(kind or {}))
    for start in range(0, rows, 20):
        buffer.add(given[start : start + 20])
    return buffer


@pytest.mark.parametrize("kind", [{}, DICT, {"obs_dtype": np.float64}, {"action_shape": ()}])
@pytest.mark.parametrize("name", BLENDING)
def test_rows_lie_between_anchor_and_partner(name, kind):
    buffer = filled(BLENDING[name], kind=kind)
    sample = buffer.sample(256)
    blended = sample.neighbor_slots >= 0
    mix, rows = sample.mix[blended], sample.transitions[blended]
    mine = buffer.storage[sample.slots[blended]].columns()
    theirs = buffer.storage[sample.neighbor_slots[blended]].columns()
    assert blended.sum() > 20 and ((mix >= 0) & (mix < 1)).all() and (sample.mix[~blended] == 1).all()
    for column in rows.columns():
        found = rows.columns()[column]
        if column.startswith(("obs", "next_obs", "actions", "rewards")):
            share = mix.double().reshape(-1, *[1] * (found.dim() - 1))
            assert torch.allclose(found.double(), share * mine[column] + (1 - share) * theirs[column], atol=1e-5)
        else:
            assert torch.equal(found, mine[column])
    identical(sample.transitions[~blended], buffer.storage[sample.slots[~blended]])


@pytest.mark.parametrize("name", ALL)
def test_terminated_ends_are_not_blended(name):
    buffer = filled(ALL[name])
    for _ in range(5):
        sample = buffer.sample(256)
        blended = sample.neighbor_slots >= 0
        for slots in (sample.slots[blended], sample.neighbor_slots[blended]):
            assert not buffer.storage[slots].terminated.any()


@pytest.mark.parametrize("name", ["fixed CT", "adaptive CT"])
def test_the_partner_is_the_next_step_of_the_same_episode(name):
    buffer = filled(BLENDING[name])
    sample = buffer.sample(256)
    blended = sample.neighbor_slots >= 0
    anchors, partners = buffer.storage[sample.slots[blended]], buffer.storage[sample.neighbor_slots[blended]]
    assert torch.equal(anchors.episode, partners.episode)
    assert torch.equal(anchors.next_obs, partners.obs)
    assert not (anchors.terminated | anchors.truncated).any()


@pytest.mark.parametrize("name", ["naive", "fixed CT"])
@pytest.mark.parametrize("alpha", [0.4, 2.0])
def test_distribution_of_lambda(name, alpha):
    buffer = filled(BLENDING[name], alpha=alpha, kind={"ends": 0.0})
    samples = [buffer.sample(256) for _ in range(10)]
    mix = torch.cat([s.mix[s.neighbor_slots >= 0] for s in samples]).double().numpy()
    assert kstest(np.clip(mix, 1e-7, 1 - 1e-7), "beta", args=(alpha, alpha)).pvalue > 1e-4


def test_uniform_coefficient():
    assert kstest(UniformCoefficient()(5000, np.random.default_rng(0)), "uniform").pvalue > 1e-4


@pytest.mark.parametrize("name", ALL)
def test_probability_0_is_uniform_replay(name):
    never, plain = filled(ALL[name], prob_interpolation=0.0), filled(Uniform)
    one, other = never.sample(128), plain.sample(128)
    assert torch.equal(one.slots, other.slots)
    identical(one.transitions, other.transitions)
    assert (one.mix == 1).all() and (one.neighbor_slots == -1).all()


@pytest.mark.parametrize("name", ALL)
def test_the_probability_of_blending_decays(name):
    buffer = filled(ALL[name], prob_interpolation=0.8, interp_decay=1.0, kind={"ends": 0.0})
    for progress, expected in ((0.0, 0.8), (0.5, 0.3), (0.8, 0.0), (1.0, 0.0)):
        buffer.anneal(progress)
        assert buffer.synthesizer.probability == pytest.approx(expected)
        share = np.mean([(buffer.sample(256).mix < 1).double().mean() for _ in range(10)])
        assert share == pytest.approx(expected, abs=0.05)
    other = ALL[name](capacity=200, prob_interpolation=0.8, interp_decay=1.0)
    other.load_state_dict(buffer.state_dict())
    same_sample(other.sample(64), buffer.sample(64))


@pytest.mark.parametrize("name", ALL)
def test_termination_of_blends_by_a_function(name):
    buffer = filled(ALL[name], termination_fn=lambda s, a, n: n[:, 0] > 0.5, gamma=0.9)
    sample = buffer.sample(500)
    blended, rows = sample.neighbor_slots >= 0, sample.transitions
    assert torch.equal(rows.terminated[blended], rows.next_obs[blended, 0] > 0.5)
    assert torch.equal(rows.terminated[~blended], buffer.storage[sample.slots[~blended]].terminated)
    assert torch.equal(rows.discounts, torch.where(rows.terminated, 0.0, 0.9))


@pytest.mark.parametrize("name", ALL)
def test_errors_go_to_the_priorities_of_the_anchors(name):
    buffer = filled(ALL[name], selector=Prioritized())
    sample = buffer.sample(1)
    buffer.update(sample, np.array([7.0]))
    assert buffer.selector.priorities(sample.slots).tolist() == pytest.approx([7.0], abs=1e-4)


@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan")])
def test_bad_decay(value):
    with pytest.raises(ValueError, match=f"interp_decay is {value}"):
        NaiveMixup(interp_decay=value)


# -- outcome --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [{}, DICT, {"obs_dtype": np.float64}])
@pytest.mark.parametrize("k", [1, 5])
def test_the_outcome_is_that_of_a_nearest_row(k, kind):
    buffer = filled(KNNOutcome, kind=kind, k=k)
    sample = buffer.sample(256)
    taken = sample.neighbor_slots >= 0
    slots, found = sample.slots[taken], sample.neighbor_slots[taken]
    assert (nearest(buffer.storage, slots, k) == found[:, None]).any(1).all() and taken.sum() > 50
    rows, mine, theirs = (
        {name: column.double() for name, column in transitions.columns().items()}
        for transitions in (sample.transitions[taken], buffer.storage[slots], buffer.storage[found])
    )
    assert torch.equal(rows["actions"], mine["actions"]) and torch.equal(rows["rewards"], theirs["rewards"])
    for name in [name for name in rows if name.startswith("next_obs")]:
        start = name.removeprefix("next_")
        assert torch.equal(rows[start], mine[start])
        assert torch.allclose(rows[name], mine[start] + theirs[name] - theirs[start], atol=1e-5)
    assert (sample.mix[taken] == 0).all() and (sample.mix[~taken] == 1).all()
    identical(sample.transitions[~taken], buffer.storage[sample.slots[~taken]])


def test_a_row_alone_keeps_its_own_outcome_bit_for_bit():
    buffer = KNNOutcome(capacity=5, seed=0)
    buffer.add(make(1, ends=0.0))
    sample = buffer.sample(8)
    identical(sample.transitions, buffer.storage[sample.slots])
    assert (sample.mix == 1).all()


def test_the_discount_of_an_n_step_outcome_comes_with_it():
    buffer = filled(KNNOutcome, n_step=3, gamma=0.9)
    sample = buffer.sample(256)
    taken = sample.neighbor_slots >= 0
    theirs = buffer.read(sample.neighbor_slots[taken])
    assert torch.equal(sample.transitions.discounts[taken], theirs.discounts)
    assert torch.equal(sample.transitions.rewards[taken], theirs.rewards)
