"""Vector environments: ours equals Gymnasium's, and each resets in the step after an episode's last."""

import gc

import failing_envs
import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList

from interreplay.rllib.env_runner.stepping import SerialEnvs
from tests.rllib import spaces_envs  # noqa: F401
from tests.rllib.small_runs import config

PREFIX = "tests.rllib.spaces_envs:"
NAMES = ["Pendulum-v1", "InvertedPendulum-v5", "CartPole-v1"]
NAMES += [PREFIX + "NestedLine-v0", PREFIX + "ImageAndVectorLine-v0"]
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
    envs = SerialEnvs(DictInfoToList(gym.vector.SyncVectorEnv([failing_envs.OneArray])))
    envs.reset()
    first = envs.step(np.zeros((1, 1)))[0]
    envs.step(np.zeros((1, 1)))
    assert first.tolist() == [[1.0, 1.0]]


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


ID = "interreplay_tests/Counting-v0"
PARTS = "interreplay_tests/CountingParts-v0"


class Reusing(SyncVectorEnv):
    """Vector environment that returns the same array at every step."""

    def __init__(self, num_envs=1, **kwargs):
        super().__init__([failing_envs.Counting] * num_envs, copy=False)


gym.register(ID, failing_envs.Counting, vector_entry_point=Reusing)
gym.register(PARTS, failing_envs.Parts)


def build(env, vectorize="sync", **arguments):
    made = config(env).environment(env_config=arguments)
    made.env_runners(num_envs_per_env_runner=3, gym_env_vectorize_mode=vectorize)
    return made.training(learning_starts=500, steps_per_iteration=90).build_algo()


@pytest.mark.parametrize(
    ("env", "vectorize"), [(ID, "sync"), (ID, "vector_entry_point"), (PARTS, "sync"), (PARTS, "async")]
)
def test_rows_contain_the_outcome_of_their_action(env, vectorize):
    algorithm = build(env, vectorize)
    result = algorithm.train()
    rows = algorithm.replay_buffer.storage[torch.arange(algorithm.env_steps)]
    obs = rows.obs
    after = rows.next_obs
    if env == PARTS:
        obs, after = (torch.cat([part["episode"], part["step"]], dim=1) for part in (obs, after))
    assert torch.equal(after, obs + torch.tensor([0.0, 1.0]))
    assert torch.equal(rows.terminated, after[:, 1] == 5) and not rows.truncated.any()
    assert (obs[:, 1] < 5).all() and rows.terminated.sum() > 10
    for episode in rows.episode.unique():
        mine = obs[rows.episode == episode]
        assert torch.equal(mine[:, 1], torch.arange(len(mine)).float()) and len(mine[:, 0].unique()) == 1
    assert result["env_runners"]["episode_return_mean"] == 5 == result["env_runners"]["episode_len_mean"]


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_other_modes_are_rejected(mode):
    with pytest.raises(ValueError, match="autoreset_mode of the vector environment .*; expected NEXT_STEP"):
        build(ID, vector_kwargs={"autoreset_mode": mode})
