"""Hindsight goals compared with a naive scan of all rows that were added."""

import numpy as np
import pytest
import torch
from builders import Episodes, make, stack
from scipy.stats import chisquare

from interreplay import Storage
from interreplay.neighborhood import NO_NEIGHBOR, SYNTHETIC, HindsightGoals, Neighborhood, Neighbors, RandomNeighbor
from interreplay.part import GOALS

GOAL = {"achieved_goal": (2,), "desired_goal": (2,), "observation": (3,)}


class World:
    """Storage, and a list of all added rows with the numbers of their episodes."""

    def __init__(self, capacity=60, **kind):
        self.storage, self.episodes = Storage(capacity), Episodes(obs_shape=GOAL, **kind)
        self.rows = []

    def add(self, n):
        rows = self.episodes.rows(n)
        self.rows += rows
        for start in range(0, n, self.storage.capacity):
            self.storage.add(stack(rows[start : start + self.storage.capacity]))

    def stored(self):
        """Write numbers by slot."""
        last = len(self.rows)
        return {write % self.storage.capacity: write for write in range(max(0, last - self.storage.capacity), last)}

    def legal(self, slot, strategy):
        """Return the slots of the steps that may be drawn, by definition."""
        mine, episode = self.stored()[slot], self.rows[self.stored()[slot]]["episode"]
        same = {s: w for s, w in self.stored().items() if self.rows[w]["episode"] == episode}
        if strategy == "episode":
            return set(same)
        later = {s: w for s, w in same.items() if w >= mine}
        return set(later) if strategy == "future" else {max(later, key=later.get)}


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_steps_equal_those_of_a_naive_scan(strategy, envs):
    world, future, rng = World(envs=envs), HindsightGoals(strategy), np.random.default_rng(0)
    for n in (1, 5, 30, 40, 7, 200, 1, 33):  # 200 rows fill the ring three times between two checks
        world.add(n)
        slots = torch.arange(len(world.storage))
        seen = [set() for _ in slots]
        for _ in range(60):
            for slot, step in enumerate(future.steps(world.storage, slots, rng).tolist()):
                seen[slot].add(step)
        for slot, steps in enumerate(seen):
            legal = world.legal(slot, strategy)
            assert steps <= legal
            assert steps == legal or len(legal) > 8


@pytest.mark.parametrize("strategy", ["future", "episode"])
def test_every_step_has_the_same_probability(strategy):
    world, future, rng = World(envs=2, ends=0.02), HindsightGoals(strategy), np.random.default_rng(1)
    world.add(150)
    slot = min(world.stored(), key=lambda s: -len(world.legal(s, strategy)))
    legal = sorted(world.legal(slot, strategy))
    assert len(legal) > 10
    drawn = future.steps(world.storage, torch.full((20_000,), slot), rng).numpy()
    assert chisquare([np.sum(drawn == s) for s in legal]).pvalue > 1e-4


def test_an_endless_episode_takes_no_more_room_than_the_ring():
    world, future, rng = World(capacity=20, ends=0.0), HindsightGoals("episode"), np.random.default_rng(0)
    for n in (15, 300, 13, 15, 15, 15, 15, 15):
        world.add(n)
        slots = torch.arange(len(world.storage))
        for step in future.steps(world.storage, slots, rng).tolist():
            assert step in world.stored()
    assert future.trajectories.used < 200


@pytest.mark.slow
def test_ended_episodes_are_dropped():
    world, future = World(capacity=20, envs=4), HindsightGoals()
    for episode in range(200):  # interrupted without an end, as by a failing environment
        world.episodes.running[0] = (10_000 + episode, world.episodes.running[0][1])
        world.add(5)
        future.steps(world.storage, torch.arange(len(world.storage)), np.random.default_rng(0))
    assert len(future.trajectories.running) <= 20 and future.trajectories.used < 1000


def test_a_reused_id_after_a_truncation_between_two_draws_is_another_episode():
    rows = make(6, obs_shape=GOAL, ends=0.0).replace(episode=torch.zeros(6, dtype=torch.int64))
    storage = Storage(10)
    goals = HindsightGoals("final")
    storage.add(rows[:3])
    goals.steps(storage, torch.arange(3), np.random.default_rng(0))
    storage.truncate_episodes([0])
    storage.add(rows[3:])
    for each in (goals, HindsightGoals("final")):
        steps = each.steps(storage, torch.arange(6), np.random.default_rng(0))
        assert steps.tolist() == [2, 2, 2, 5, 5, 5]


def test_rows_without_ids_are_separated_by_their_observations():
    rows = make(40, obs_shape=GOAL, ids=False, ends=0.2)
    storage = Storage(64)
    storage.add(rows)
    steps = HindsightGoals("final").steps(storage, torch.arange(40), np.random.default_rng(0)).tolist()
    ends = (rows.terminated | rows.truncated).tolist()
    expected, last = [], 39
    for row in range(39, -1, -1):
        last = row if ends[row] else last
        expected.append(last)
    assert steps == expected[::-1]


class SyntheticPartners(Neighborhood):
    """Two partners per anchor: a synthetic one and a missing one."""

    def gather(self, storage, slots, rng):
        rows = storage[slots.unsqueeze(1).expand(-1, 2)]
        found = torch.tensor([[SYNTHETIC, NO_NEIGHBOR]]).expand(len(slots), -1)
        return Neighbors(found, rows.replace(rewards=rows.rewards + 1))


def test_partners_get_goals_of_their_own_episodes_or_the_anchors():
    world, slots = World(envs=3), torch.arange(60)
    world.add(200)
    finals = {s: world.legal(s, "final").pop() for s in range(60)}
    achieved = world.storage[slots].next_obs["achieved_goal"]
    found = HindsightGoals("final", RandomNeighbor()).gather(world.storage, slots, np.random.default_rng(0))
    assert found.rows is None, "the buffer reads them"
    goals = found.extras[GOALS]
    for slot, partner in enumerate(found.slots[:, 0].tolist()):
        assert torch.equal(goals[slot], achieved[[finals[slot], finals[partner]]])
    found = HindsightGoals("final", SyntheticPartners()).gather(world.storage, slots, np.random.default_rng(0))
    assert found.slots[0].tolist() == [-2, -1] and found.extras[GOALS].shape == (60, 3, 2)
    for slot in range(60):
        assert torch.equal(found.extras[GOALS][slot], achieved[[finals[slot]] * 3])
