"""Mixup: points on the line between an anchor and its neighbor, and what happens at the ends of episodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders import identical, make, same_sample
from scipy.stats import kstest

from interreplay import Transitions
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Beta
from replay_buffers import NMER, Uniform

DICT = {"obs_shape": {"observation": (3,), "goal": (2,)}}


def nmer(rows: int = 400, kind: dict | None = None, **arguments) -> NMER:
    buffer = NMER(**({"capacity": 400, "seed": 0} | arguments))
    buffer.add(make(rows, envs=3, **(kind or {})))
    return buffer


@pytest.mark.parametrize("kind", [{}, DICT, {"obs_dtype": np.float64}, {"action_shape": ()}, {"action_shape": (2, 2)}])
def test_rows_lie_between_anchor_and_neighbor(kind):
    buffer = nmer(kind=kind)
    sample = buffer.sample(256)
    blended = sample.neighbor_slots >= 0
    rows, anchors = sample.transitions[blended], buffer.storage[sample.slots[blended]]
    partners, mix = buffer.storage[sample.neighbor_slots[blended]], sample.mix[blended]
    assert blended.sum() > 50 and ((mix > 0) & (mix < 1)).all()
    mine, theirs = anchors.columns(), partners.columns()
    for name, column in rows.columns().items():
        if name in ("terminated", "truncated", "episode", "discounts"):
            assert torch.equal(column, mine[name])
            continue
        share = mix.double().reshape(-1, *[1] * (column.dim() - 1))
        assert torch.allclose(column.double(), share * mine[name] + (1 - share) * theirs[name], atol=1e-5), name


def test_rows_that_are_not_blended_are_their_anchors_bit_for_bit():
    buffer = nmer()
    sample = buffer.sample(256)
    alone = sample.neighbor_slots < 0
    assert 0 < alone.sum() < 256
    assert (sample.mix[alone] == 1).all()
    identical(sample.transitions[alone], buffer.storage[sample.slots[alone]])


def test_neither_end_of_a_blend_is_terminated():
    buffer = nmer()
    for _ in range(10):
        sample = buffer.sample(256)
        blended = sample.neighbor_slots >= 0
        assert not buffer.storage[sample.slots[blended]].terminated.any()
        assert not buffer.storage[sample.neighbor_slots[blended]].terminated.any()


def test_truncation_is_no_termination():
    buffer = nmer()
    samples = [buffer.sample(256) for _ in range(10)]
    ends = [buffer.storage[s.slots[s.neighbor_slots >= 0]].truncated.any() for s in samples]
    others = [buffer.storage[s.neighbor_slots[s.neighbor_slots >= 0]].truncated.any() for s in samples]
    assert any(ends) and any(others)


def test_termination_of_blends_by_a_function():
    def outside(obs: torch.Tensor, actions: torch.Tensor, next_obs: torch.Tensor) -> torch.Tensor:
        return next_obs[:, 0] > 0.5

    buffer = nmer(termination_fn=outside, gamma=0.9)
    sample = buffer.sample(2000)
    blended, rows = sample.neighbor_slots >= 0, sample.transitions
    assert (blended | (sample.mix == 1)).all()
    assert buffer.storage[sample.slots[blended]].terminated.any(), "rows are blended whatever their ends"
    assert torch.equal(rows.terminated[blended], rows.next_obs[blended, 0] > 0.5)
    assert torch.equal(rows.discounts, torch.where(rows.terminated, 0.0, 0.9))


def test_a_row_without_a_neighbor_keeps_its_own_termination():
    buffer = NMER(capacity=5, seed=0, termination_fn=lambda s, a, n: torch.ones(len(a), dtype=torch.bool))
    buffer.add(make(1, ends=0.0))
    sample = buffer.sample(8)
    assert (sample.neighbor_slots == -1).all() and (sample.mix == 1).all()
    identical(sample.transitions, buffer.storage[sample.slots])


def test_termination_of_n_step_blends_is_refused():
    with pytest.raises(ValueError, match="n_step is 3"):
        NMER(capacity=5, n_step=3, termination_fn=lambda s, a, n: a)


@pytest.mark.parametrize("alpha", [0.3, 0.75, 1.0, 4.0])
def test_distribution_of_the_coefficient(alpha):
    buffer = NMER(capacity=300, alpha=alpha, seed=0)
    buffer.add(make(300, ends=0.0))
    drawn = torch.cat([buffer.sample(256).mix for _ in range(20)]).double().numpy()
    # float32 rounds the ends: compare where it does not
    assert kstest(np.clip(drawn, 1e-7, 1 - 1e-7), "beta", args=(alpha, alpha)).pvalue > 1e-4


def test_no_probability_of_interpolation_is_uniform_replay():
    plain, never = Uniform(capacity=300, seed=3), nmer(capacity=300, seed=3, prob_interpolation=0.0)
    plain.add(make(400, envs=3))
    one, other = plain.sample(256), never.sample(256)
    identical(one.transitions, other.transitions)
    assert torch.equal(one.slots, other.slots) and torch.equal(one.weights, other.weights)
    assert (other.neighbor_slots == -1).all() and (other.mix == 1).all()


def test_probability_of_interpolation():
    buffer = NMER(capacity=300, prob_interpolation=0.3, seed=0)
    buffer.add(make(300, ends=0.0))
    share = torch.cat([buffer.sample(256).neighbor_slots >= 0 for _ in range(40)]).double().mean()
    assert float(share) == pytest.approx(0.3, abs=0.02)  # four standard deviations


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"obs_shape": (4, 4, 3), "obs_dtype": np.uint8}, "obs of torch.uint8 cannot be blended"),
        (
            {"obs_shape": (), "obs_dtype": np.int64, "action_shape": (), "action_dtype": np.int64},
            "obs of torch.int64 and actions of torch.int64 cannot be blended",
        ),
        ({"obs_shape": {"camera": (2,)}, "obs_dtype": np.uint8}, "obs.camera of torch.uint8 cannot be blended"),
    ],
)
def test_integers_are_refused_by_name(kind, message):
    buffer = NMER(capacity=20)
    with pytest.raises(ValueError, match=message):
        buffer.add(make(5, **kind))
    assert len(buffer) == 0
    buffer.add(make(5))


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_bad_probability(value):
    with pytest.raises(ValueError, match=f"prob_interpolation is {value}"):
        Mixup(prob_interpolation=value)


@pytest.mark.parametrize("value", [0, -1.0, float("nan")])
def test_bad_alpha(value):
    with pytest.raises(ValueError, match=f"alpha is {value}"):
        Beta(value)


def test_the_first_of_several_neighbors_is_the_partner():
    rows = make(40, ends=0.0)
    anchors, neighbors = rows[:10], rows[torch.arange(30).reshape(10, 3)]
    made = Mixup(lambda size, rng: np.zeros(size))(anchors, neighbors, np.random.default_rng(0))
    assert isinstance(made.rows, Transitions) and (made.mix == 0).all()
    assert torch.equal(made.rows.obs, rows.obs[torch.arange(0, 30, 3)])


def test_seeds():
    one, other, third = nmer(seed=1), nmer(seed=1), nmer(seed=2)
    sample = one.sample(64)
    same_sample(sample, other.sample(64))
    assert not torch.equal(sample.slots, third.sample(64).slots)
