"""Vector environments reset in the step after an episode's last; others are rejected."""

import failing_envs
import gymnasium as gym
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.rllib.small_runs import config

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
    obs, after = rows.obs, rows.next_obs
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
