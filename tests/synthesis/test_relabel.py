"""Relabel and HER: goals, rewards and terminations in hindsight, compared with their definition row by row."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders import make, require_same_samples
from scipy.stats import binomtest

from interreplay import ReplayBuffer
from interreplay.environments.goal_functions import each
from interreplay.errors import PartError
from interreplay.neighborhood import KNN, HindsightGoals, RandomNeighbor, Successor
from interreplay.synthesis import AdaptiveMixup, Mixup, NearestOutcome, Relabel
from interreplay.synthesis.gaussian_process import GaussianProcess
from replay_buffers import HER, Uniform

GOAL = {"achieved_goal": (2,), "desired_goal": (2,), "observation": (3,)}
CERTAIN = 1e12  # k with which every row is relabeled


def reward(achieved, desired, info):
    """Sparse: 0 within 1, else −1."""
    return -(np.linalg.norm(achieved - desired, axis=-1) > 1.0).astype(np.float32)


def terminated(achieved, desired, info):
    """One row at a time, as in PointMaze; for many rows, it returns one wrong value."""
    return bool(np.linalg.norm(achieved - desired) <= 0.5)


def filled(rows=500, capacity=300, envs=3, **arguments):
    buffer = HER(capacity=capacity, seed=0, compute_reward=reward, compute_terminated=terminated, **arguments)
    buffer.add(make(rows, envs=envs, obs_shape=GOAL, ends=0.05))
    return buffer


def futures(buffer, slot):
    """Return the goals that a row's episode achieved from its step on, by a scan of the whole storage."""
    storage = buffer.storage
    slots = torch.arange(len(storage))
    writes, episodes = storage.write_numbers(slots), storage.column("episode")[: len(storage)]
    later = slots[(episodes == episodes[slot]) & (writes >= writes[slot])]
    return {tuple(goal) for goal in storage[later].next_obs["achieved_goal"].tolist()}


def test_relabeled_rows_have_goals_achieved_later_in_their_episode():
    buffer = filled()
    relabeled = 0
    for _ in range(4):
        sample = buffer.sample(256)
        rows, stored = sample.transitions, buffer.storage[sample.slots]
        changed = (rows.obs["desired_goal"] != stored.obs["desired_goal"]).any(1)
        relabeled += int(changed.sum())
        for i, slot in enumerate(sample.slots.tolist()):
            if not changed[i]:
                assert torch.equal(rows.next_obs["desired_goal"][i], stored.next_obs["desired_goal"][i])
                assert rows.rewards[i] == stored.rewards[i] and rows.terminated[i] == stored.terminated[i]
                continue
            goal, achieved = rows.obs["desired_goal"][i], rows.next_obs["achieved_goal"][i]
            assert tuple(goal.tolist()) in futures(buffer, slot)
            assert torch.equal(rows.next_obs["desired_goal"][i], goal)
            assert rows.rewards[i] == reward(achieved.numpy(), goal.numpy(), {})
            assert bool(rows.terminated[i]) == terminated(achieved.numpy(), goal.numpy(), {})
        assert torch.equal(rows.discounts, 0.99 * (~rows.terminated).float())
        for name in ("observation", "achieved_goal"):
            assert torch.equal(rows.obs[name], stored.obs[name])
            assert torch.equal(rows.next_obs[name], stored.next_obs[name])
        assert torch.equal(rows.actions, stored.actions) and torch.equal(rows.truncated, stored.truncated)
        assert sample.mix is None and (sample.neighbor_slots == -1).all()
    assert binomtest(relabeled, 4 * 256, 0.8).pvalue > 1e-4
    assert 0 < int(rows.terminated.sum()) < 256 and len(rows.rewards.unique()) > 2


def test_k_0_is_uniform_replay():
    hindsight, uniform = HER(capacity=100, k=0, seed=3), Uniform(capacity=100, seed=3)
    for seed in range(3):
        for buffer in (hindsight, uniform):
            buffer.add(make(70, seed=seed, obs_shape=GOAL))
        require_same_samples(hindsight.sample(64), uniform.sample(64))


def finals(buffer, slots):
    """Return the last achieved goals of the episodes of rows."""
    steps = buffer.neighborhood.steps(buffer.storage, slots, np.random.default_rng(0))
    return buffer.storage[steps].next_obs["achieved_goal"]


@pytest.mark.parametrize("neighborhood", [RandomNeighbor, lambda: KNN(k=5), Successor])
def test_a_blend_has_blended_goals_and_their_reward(neighborhood):
    buffer = filled(k=CERTAIN, strategy="final", neighborhood=neighborhood(), blend=Mixup())
    sample = buffer.sample(256)
    rows, mix, blended = sample.transitions, sample.mix, sample.mix < 1
    assert blended.any() and ((sample.neighbor_slots >= 0) == blended).all()
    anchors, partners = sample.slots, torch.where(blended, sample.neighbor_slots, sample.slots)
    share = mix.unsqueeze(1)
    goals = share * finals(buffer, anchors) + (1 - share) * finals(buffer, partners)
    achieved = [buffer.storage[slots].next_obs["achieved_goal"] for slots in (anchors, partners)]
    torch.testing.assert_close(rows.obs["desired_goal"], goals)
    torch.testing.assert_close(rows.next_obs["desired_goal"], goals)
    torch.testing.assert_close(rows.next_obs["achieved_goal"], share * achieved[0] + (1 - share) * achieved[1])
    mine, desired_goals = rows.next_obs["achieved_goal"].numpy(), rows.next_obs["desired_goal"].numpy()
    assert np.array_equal(rows.rewards, reward(mine, desired_goals, {}))  # 0 or −1, never between
    assert rows.terminated.tolist() == [terminated(a, d, {}) for a, d in zip(mine, desired_goals, strict=True)]


class SomePartners(RandomNeighbor):
    """Random partners of the even slots only."""

    def neighbor_slots(self, storage, slots, rng):
        found = super().neighbor_slots(storage, slots, rng)
        return found.masked_fill((slots % 2 == 1).unsqueeze(1), -1)


def test_rows_without_a_partner_keep_their_rewards_and_terminations():
    buffer = filled(k=0, neighborhood=SomePartners(), blend=Mixup())
    sample = buffer.sample(256)
    odd = sample.slots % 2 == 1
    own = buffer.storage[sample.slots[odd]]
    torch.testing.assert_close(sample.transitions.rewards[odd], own.rewards)
    assert torch.equal(sample.transitions.terminated[odd], own.terminated)
    assert torch.isin(sample.transitions.rewards[sample.mix < 1], torch.tensor([0.0, -1.0])).all()


@pytest.mark.parametrize("blend", [AdaptiveMixup, GaussianProcess])
def test_batches_are_drawn_one_by_one_if_the_blend_learns_from_each(blend):
    assert Relabel(blend=Mixup()).independent_rows
    assert Relabel().independent_rows
    assert not Relabel(blend=blend()).independent_rows


class Weighted(Mixup):
    """Mixup with variances and row weights."""

    def __call__(self, anchors, neighbors, rng):
        made = super().__call__(anchors, neighbors, rng)
        weights = torch.linspace(0.5, 1.5, len(anchors))
        return replace(made, variances=torch.ones(len(anchors), 8), row_weights=weights)


def test_row_weights_of_a_blend_are_kept():
    sample = filled(neighborhood=RandomNeighbor(), blend=Weighted()).sample(32)
    assert torch.equal(sample.row_weights, torch.linspace(0.5, 1.5, 32))
    assert sample.variances is None


def test_ends_terminated_for_their_new_goal_are_not_blended():
    buffer = filled(k=CERTAIN, strategy="final", neighborhood=RandomNeighbor(), blend=Mixup())
    sample = buffer.sample(256)
    for slots in (sample.slots, sample.neighbor_slots):
        blended = slots[sample.mix < 1]
        ends = buffer.storage[blended].next_obs["achieved_goal"].numpy(), finals(buffer, blended).numpy()
        assert not any(terminated(a, d, {}) for a, d in zip(*ends, strict=True))
    assert (sample.mix == 1).any()


def test_rows_that_keep_their_goals_are_blended():
    buffer = filled(k=0, neighborhood=RandomNeighbor())
    sample = buffer.sample(256)
    share = sample.mix.unsqueeze(1)
    ends = [buffer.storage[s].obs["desired_goal"] for s in (sample.slots, sample.neighbor_slots.clamp(min=0))]
    torch.testing.assert_close(sample.transitions.obs["desired_goal"], share * ends[0] + (1 - share) * ends[1])


def test_other_blends():
    buffer = filled(k=CERTAIN, neighborhood=KNN(k=1), blend=NearestOutcome())
    rows = buffer.sample(256).transitions
    torch.testing.assert_close(rows.obs["desired_goal"], rows.next_obs["desired_goal"])
    assert np.array_equal(rows.rewards, reward(*(rows.next_obs[name].numpy() for name in list(GOAL)[:2]), {}))


def test_error_messages():
    with pytest.raises(ValueError, match=r"hindsight needs Dict observations with achieved_goal and .*; got obs$"):
        HER(compute_reward=reward).add(make(5))
    with pytest.raises(ValueError, match="achieved_goal is .* desired_goal is .*; expected equal shapes"):
        HER(compute_reward=reward).add(make(5, obs_shape=GOAL | {"desired_goal": (3,)}))
    with pytest.raises(ValueError, match="cannot be relabeled"):
        HER(compute_reward=reward).add(make(5, obs_shape=GOAL, obs_dtype=np.int64))
    buffer = ReplayBuffer(10, neighborhood=RandomNeighbor(), synthesizer=Relabel(compute_reward=reward))
    buffer.add(make(5, obs_shape=GOAL))
    with pytest.raises(ValueError, match="expected the neighborhood HindsightGoals"):
        buffer.sample(4)
    blended = Relabel(4, reward, None, Mixup())
    buffer = ReplayBuffer(10, neighborhood=HindsightGoals(), synthesizer=blended)
    buffer.add(make(5, obs_shape=GOAL))
    with pytest.raises(ValueError, match=r"no partners to blend with; expected .* HindsightGoals\(partners="):
        buffer.sample(4)
    buffer = HER()
    buffer.add(make(5, obs_shape=GOAL))
    with pytest.raises(ValueError, match=r"compute_reward is None; expected .*env.unwrapped.compute_reward"):
        buffer.sample(4)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_function_of_single_rows_is_right_for_as_many_rows_as_a_goal_has_numbers(count):
    def single(achieved, desired, info):
        return abs(achieved[0] - desired[0]) + 2 * abs(achieved[1] - desired[1])

    achieved = np.random.default_rng(0).normal(size=(count, 2))
    desired = np.zeros((count, 2))
    assert np.allclose(each(single, achieved, desired), np.abs(achieved) @ [1, 2])
    assert np.allclose(each(lambda a, d, _: (a - d).sum(axis=1), achieved, desired), achieved.sum(axis=1))


@pytest.mark.parametrize(
    ("value", "returned"),
    [(np.nan, "nan"), ("much", "much"), (np.ones(2), r"\[1\. 1\.\] for one row"), (None, "None")],
)
def test_a_function_of_goals_must_return_a_finite_number_per_row(value, returned):
    def reward(achieved, desired, info):
        assert achieved.ndim == 1, "one row at a time"
        return value

    goals = np.zeros((3, 4))
    with pytest.raises(PartError, match=f"reward returned {returned}; expected one finite number per row"):
        each(reward, goals, goals)
    assert each(lambda a, d, _: np.ones((*a.shape[:-1], 1)), goals, goals).tolist() == [1.0] * 3


@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_function_of_goals_may_change_its_inputs(dimensions):
    def changing(achieved, desired, info):
        achieved -= desired
        assert achieved.ndim <= dimensions
        return -np.linalg.norm(achieved, axis=-1)

    buffer = HER(capacity=50, k=CERTAIN, compute_reward=changing, seed=0)
    buffer.add(make(40, obs_shape=GOAL))
    sample = buffer.sample(16)
    rows = sample.transitions
    achieved = rows.next_obs["achieved_goal"]
    assert torch.equal(achieved, buffer.storage[sample.slots].next_obs["achieved_goal"])
    assert torch.allclose(rows.rewards, -(achieved - rows.next_obs["desired_goal"]).norm(dim=1))
    assert torch.equal(rows.terminated, buffer.storage[sample.slots].terminated), "without compute_terminated"
