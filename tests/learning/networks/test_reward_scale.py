"""The divisor of rewards: the running deviation of the discounted return."""

import numpy as np
import pytest
import torch

from interreplay import Transitions
from interreplay.learning.networks.normalization import RewardScale


def rows(rewards, episodes, ends=(), cuts=()):
    count = len(rewards)
    return Transitions(
        obs=torch.zeros(count, 1),
        actions=torch.zeros(count, 1),
        rewards=torch.tensor(rewards, dtype=torch.float32),
        next_obs=torch.zeros(count, 1),
        terminated=[i in ends for i in range(count)],
        truncated=[i in cuts for i in range(count)],
        episode=episodes,
    )


def naive(rewards, episodes, gamma):
    """Return the divisor by its definition, from every return of every episode."""
    returns = [
        sum(gamma ** (now - then) * rewards[then] for then in range(now + 1) if episodes[then] == episodes[now])
        for now in range(len(rewards))
    ]
    return max(np.sqrt(np.var(returns) + 1e-8), np.abs(returns).max() / 5)


@pytest.mark.parametrize("kind", ["ends", "cuts"])
def test_the_example_of_four_steps(kind):
    scale = RewardScale(gamma=0.5)
    assert scale.divisor == 1.0
    scale.observe(rows([1, 2, 3, 4], [7, 7, 7, 8], **{kind: [2]}))  # G: 1, 2.5, 4.25, and 4 in another episode
    assert scale.divisor == pytest.approx(1.3035, abs=5e-5)
    assert scale._largest / scale.LIMIT == pytest.approx(0.85)


def test_rare_rewards_are_bounded_by_a_fifth_of_the_largest_return():
    scale = RewardScale(gamma=0.99)
    scale.observe(rows([0.0] * 400, [0] * 400, ends=[399]))
    assert scale.divisor == 1e-4
    scale.observe(rows([10.0], [1], ends=[0]))
    assert scale.divisor == 2.0


def test_environments_in_turn_have_a_return_each():
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=60).astype(np.float32).tolist()
    episodes = [step % 3 for step in range(60)]
    scale = RewardScale(gamma=0.9)
    for start in range(0, 60, 3):
        scale.observe(rows(rewards[start : start + 3], episodes[start : start + 3]))
    powers = [[0.9 ** ((now - then) // 3) for then in range(now + 1)] for now in range(60)]
    returns = [
        sum(powers[now][then] * rewards[then] for then in range(now + 1) if (now - then) % 3 == 0) for now in range(60)
    ]
    assert scale.divisor == pytest.approx(max(np.std(returns), np.abs(returns).max() / 5), rel=1e-6)


def test_the_unit_of_rewards_does_not_matter():
    rng = np.random.default_rng(1)
    rewards = rng.normal(size=50)
    episodes = np.repeat([0, 1], 25).tolist()
    one, other = RewardScale(0.95), RewardScale(0.95)
    one.observe(rows(rewards, episodes, ends=[24]))
    other.observe(rows(300 * rewards, episodes, ends=[24]))
    assert one.divisor == pytest.approx(naive(rewards, episodes, 0.95), rel=1e-6)
    batch = rows(rewards, episodes)
    scaled = other.scale(batch.replace(rewards=300 * batch.rewards)).rewards
    assert torch.allclose(one.scale(batch).rewards, scaled, rtol=1e-6)


def test_an_episode_that_was_broken_off_leaves_nothing_for_its_number():
    scale, other = RewardScale(0.9), RewardScale(0.9)
    for each in (scale, other):
        each.observe(rows([5.0, 1.0], [0, 1]))
    scale.forget([0, 12])
    scale.observe(rows([1.0, 1.0], [0, 1]))
    other.observe(rows([1.0, 1.0], [2, 1]))
    assert scale.divisor == other.divisor
    scale.forget()
    assert not scale._returns


def test_a_state_continues_in_the_middle_of_episodes():
    scale, other = RewardScale(0.9), RewardScale(0.9)
    scale.observe(rows([1.0, -2.0, 3.0], [0, 1, 0]))
    other.load_state_dict(scale.state_dict())
    for each in (scale, other):
        each.observe(rows([1.0, 1.5], [0, 1]))
    assert scale.divisor == other.divisor
