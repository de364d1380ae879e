"""The divisor of rewards: the running deviation of the discounted return."""

import numpy as np
import pytest
import torch
from builders import rows_with

from interreplay.learning.networks.normalization import RewardScale


def rows(rewards, episodes, ends=(), cuts=()):
    count = len(rewards)
    terminated = [i in ends for i in range(count)]
    truncated = [i in cuts for i in range(count)]
    return rows_with(rewards=np.float32(rewards), terminated=terminated, truncated=truncated, episode=episodes)


def naive(rewards, episodes, gamma):
    """Return the divisor by its definition, from every return of every episode."""
    returns = []
    for now, episode in enumerate(episodes):
        own = [rewards[then] for then in range(now, -1, -1) if episodes[then] == episode]
        returns.append(sum(gamma**age * reward for age, reward in enumerate(own)))
    return max(np.sqrt(np.var(returns) + 1e-8), np.abs(returns).max() / 5)


@pytest.mark.parametrize("kind", ["ends", "cuts"])
@pytest.mark.parametrize("unit", [1.0, 300.0])
def test_rewards_are_divided_as_defined(unit, kind):
    """Three environments in turn play three episodes each, with the same three ids."""
    rewards = unit * np.random.default_rng(0).normal(size=90)
    episodes = [3 * (step // 30) + step % 3 for step in range(90)]
    last = [step for step in range(90) if step % 30 >= 27]
    given = rows(rewards, [episode % 3 for episode in episodes], **{kind: last})
    scale = RewardScale(gamma=0.9)
    assert scale.divisor == 1.0
    for start in range(0, 90, 15):
        scale.observe(given[start : start + 15])
    assert scale.divisor == pytest.approx(naive(rewards, episodes, 0.9), rel=1e-5)
    assert torch.allclose(scale.scale(given).rewards, given.rewards / scale.divisor)


def test_rare_rewards_are_bounded_by_a_fifth_of_the_largest_return():
    scale = RewardScale(gamma=0.99)
    scale.observe(rows([0.0] * 400, [0] * 400, ends=[399]))
    assert scale.divisor == 1e-4
    scale.observe(rows([10.0], [1], ends=[0]))
    assert scale.divisor == 2.0


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
