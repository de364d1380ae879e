"""Unrolls: the order of rows over episode ends, resets, failures and consecutive unrolls."""

import failing_envs
import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import SyncVectorEnv

from interreplay.errors import EnvironmentFailure
from interreplay.learning.networks.distributions import Categorical, Normal
from interreplay.learning.policies import POLICY_OUTPUT
from interreplay.rllib import A2CConfig, IMPALAConfig


class Truncated(failing_envs.Counting):
    """Environment whose every other episode is truncated instead of terminated."""

    def step(self, action):
        obs, reward, over, _, info = super().step(action)
        cut = over and self.episodes % 2 == 0
        return obs, reward + 0.25 * self.steps, over and not cut, cut, info


class WholeFirst(SyncVectorEnv):
    """Vector environment whose rewards are integers in the first step and fractions afterwards."""

    def __init__(self, num_envs=1, **kwargs):
        super().__init__([failing_envs.Counting] * num_envs)
        self.first = True

    def step(self, actions):
        obs, rewards, *others = super().step(actions)
        rewards = np.full(len(rewards), 1 if self.first else 0.5)
        self.first = False
        return obs, rewards, *others


def built(env, steps=4, envs=2, kind=IMPALAConfig, seed=0, **env_config):
    made = kind().environment(env, env_config={"length": 5, "step": -1} | env_config).debugging(seed=seed)
    made.training(hiddens=(8,), train_batch_size=envs, steps_per_iteration=1)
    made.env_runners(num_envs_per_env_runner=envs, rollout_fragment_length=steps)
    return made.build_algo()


def test_rows_are_in_order_over_episode_ends_and_consecutive_unrolls():
    algorithm = built(Truncated)
    parts = [algorithm.env_runner.unroll(4, version) for version in range(5)]
    for one, other in zip(parts, parts[1:], strict=False):
        assert torch.equal(one.obs[-1], other.obs[0])
    obs = torch.cat([part.obs[:-1] for part in parts])[:, 0].tolist()
    live, terminated, rewards = (
        torch.cat([getattr(p, n) for p in parts])[:, 0] for n in ("live", "terminated", "rewards")
    )
    # An episode of five steps is five rows and one more, at its last observation, that only resets; then the next.
    expected = [([float(i // 6 + 1), float(i % 6)], i % 6 < 5) for i in range(20)]
    assert list(zip(obs, live.tolist(), strict=True)) == expected
    assert terminated.tolist() == [i in (4, 16) for i in range(20)]  # the second episode is cut
    assert rewards.tolist() == [1 + 0.25 * (i % 6 + 1) if i % 6 < 5 else 0.0 for i in range(20)]
    assert [p.version.tolist() for p in parts] == [[i, i] for i in range(5)]
    assert all(p.fresh.all() for p in parts)
    assert sum(p.env_steps for p in parts) == algorithm.env_runner.num_env_steps_sampled_lifetime == 2 * 17


def test_rewards_are_not_rounded_to_the_type_of_the_first_step():
    gym.register("interreplay_tests/WholeFirst-v0", failing_envs.Counting, vector_entry_point=WholeFirst)
    made = IMPALAConfig().environment("interreplay_tests/WholeFirst-v0").training(hiddens=(8,), train_batch_size=2)
    made.env_runners(num_envs_per_env_runner=2, gym_env_vectorize_mode="vector_entry_point")
    unrolls = made.build_algo().env_runner.unroll(4)
    assert unrolls.rewards[:, 0].tolist() == [1.0, 0.5, 0.5, 0.5]


@pytest.mark.parametrize("kind", [IMPALAConfig, A2CConfig])
def test_recorded_outputs_equal_those_of_the_policy(kind):
    for env, family in (("CartPole-v1", Categorical(2)), ("Pendulum-v1", Normal(1))):
        made = kind().environment(env).debugging(seed=1).env_runners(num_envs_per_env_runner=3)
        algorithm = made.build_algo()
        unrolls = algorithm.env_runner.unroll(6)
        module = algorithm.learner.single_module
        with torch.no_grad():
            found = module.policy.record(module.policy.output(module.encode(unrolls.obs[:-1].flatten(0, 1))))
        torch.testing.assert_close(unrolls.policy.flatten(0, 1), found[POLICY_OUTPUT])
        torch.testing.assert_close(unrolls.values.flatten(), found["values"])
        logs = family.log_prob(unrolls.policy, unrolls.actions)
        assert logs.shape == (6, 3) and torch.isfinite(logs).all()


def test_parts_of_observations_keep_their_names():
    algorithm = built(failing_envs.Parts)
    unrolls = algorithm.env_runner.unroll(4)
    assert unrolls.obs["step"][:, 0, 0].tolist() == [0, 1, 2, 3, 4]
    algorithm.train()


def test_steps_before_a_failure_are_kept_and_the_next_call_raises():
    algorithm = built(failing_envs.Raises, steps=6, envs=1, step=4)
    unrolls = algorithm.env_runner.unroll(6)
    assert unrolls.live[:, 0].tolist() == [True] * 3 + [False] * 3
    assert unrolls.obs[:, 0, 1].tolist() == [0, 1, 2, 3, 3, 3, 3]
    with pytest.raises(EnvironmentFailure, match="the motor burnt out"):
        algorithm.env_runner.unroll(6)


def test_an_unroll_after_an_error_of_a_callback_begins_a_new_episode():
    algorithm = built(failing_envs.Counting, steps=4, envs=1, length=20, step=-1)
    runner = algorithm.env_runner

    def fails(**arguments):
        if runner._state.log.lengths[0] == 6:
            raise RuntimeError("the disk is full")

    runner.config = runner.config.copy(copy_frozen=False).callbacks(on_episode_step=fails)
    runner._hooks.listening = True
    runner.unroll(4)
    with pytest.raises(RuntimeError, match="the disk is full"):
        runner.unroll(4)
    unrolls = runner.unroll(4)
    assert unrolls.obs[:, 0].tolist() == [[2, 0], [2, 1], [2, 2], [2, 3], [2, 4]]
    assert runner.num_env_steps_sampled_lifetime == 8
