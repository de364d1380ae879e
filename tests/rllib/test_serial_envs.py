"""Our vector environment against gymnasium's."""

import gc

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList

from interreplay.errors import EnvironmentFailure
from interreplay.rllib.env_runner.stepping import SerialEnvs
from tests.rllib import spaces_envs  # noqa: F401

PREFIX = "tests.rllib.spaces_envs:"
NAMES = [
    "Pendulum-v1",
    "InvertedPendulum-v5",
    "CartPole-v1",
    PREFIX + "NestedLine-v0",
    PREFIX + "ImageAndVectorLine-v0",
]
NAMES += [PREFIX + "DiscreteLine-v0", PREFIX + "StackedLine-v0"]


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_steps_equal_those_of_gymnasium(name):
    count = 3
    theirs = DictInfoToList(gym.make_vec(name, num_envs=count, vectorization_mode="sync"))
    ours = gym.make_vec(name, num_envs=count, vectorization_mode="sync")
    assert not SerialEnvs.fits(ours)
    ours = DictInfoToList(ours)
    assert SerialEnvs.fits(ours)
    ours = SerialEnvs(ours)
    assert same(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    theirs.action_space.seed(1)
    ended = 0
    for _ in range(220):
        actions = theirs.action_space.sample()
        mine, expected = ours.step(actions), theirs.step(actions)
        assert same(mine[:4], expected[:4])
        assert [sorted(info) for info in mine[4]] == [sorted(info) for info in expected[4]]
        assert np.array_equal(ours.unwrapped._autoreset_envs, theirs.unwrapped._autoreset_envs)
        ended += int((mine[2] | mine[3]).sum())
    assert ended > 0


def test_observations_are_copies():
    class Same(gym.Env):
        observation_space = gym.spaces.Box(-9, 9, (2,), np.float32)
        action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        obs = np.zeros(2, np.float32)

        def reset(self, *, seed=None, options=None):
            return self.obs, {}

        def step(self, action):
            self.obs += 1
            return self.obs, 0.0, False, False, {}

    envs = SerialEnvs(DictInfoToList(gym.vector.SyncVectorEnv([Same])))
    envs.reset()
    first = envs.step(np.zeros((1, 1)))[0]
    envs.step(np.zeros((1, 1)))
    assert first.tolist() == [[1.0, 1.0]]


def test_a_malformed_reset_is_found_without_another_one():
    class OnlyObservation(spaces_envs.Line):
        resets = 0

        def reset(self, *, seed=None, options=None):
            self.resets += 1
            return super().reset(seed=seed)[0]

    envs = SerialEnvs(DictInfoToList(gym.vector.SyncVectorEnv([OnlyObservation] * 2)))
    with pytest.raises(EnvironmentFailure, match="returned a dict in reset; expected two: observation, info"):
        envs.reset(seed=1)
    assert [env.resets for env in envs.unwrapped.envs] == [1, 1]


def test_environments_stay_open():
    closed = []

    class Closing(spaces_envs.Line):
        def close(self):
            closed.append(self)

    envs = SerialEnvs(DictInfoToList(gym.vector.SyncVectorEnv([Closing])))
    gc.collect()
    assert not closed
    envs.close()
    assert len(closed) == 1


def test_other_vector_environments_are_not_replaced():
    settings = {"autoreset_mode": AutoresetMode.SAME_STEP}
    same_step = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync", vector_kwargs=settings)
    assert not SerialEnvs.fits(DictInfoToList(same_step))
    assert not SerialEnvs.fits(gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point"))
