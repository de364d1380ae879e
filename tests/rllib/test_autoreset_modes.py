"""Vector environments that reset in the step after an episode's last, in the same, or not at all."""

from __future__ import annotations

import failing_envs
import gymnasium as gym
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from interreplay.errors import EnvironmentFailure
from interreplay.rllib import SACConfig

ID = "interreplay_tests/Counting-v0"


class Silent(SyncVectorEnv):
    """Resets in the same step and keeps the final observation for itself."""

    def __init__(self, num_envs):
        super().__init__([failing_envs.Counting] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)

    def step(self, actions):
        return *super().step(actions)[:4], {}


@pytest.fixture(scope="module", autouse=True)
def environments(cluster):
    gym.register(ID, failing_envs.Counting)
    gym.register(f"{ID[:-3]}Parts-v0", failing_envs.Parts)
    gym.register(f"{ID[:-3]}Silent-v0", vector_entry_point=Silent)


def build(mode, env=ID, vectorize="sync", envs=3, **keywords):
    made = SACConfig().environment(env, env_config={"vector_kwargs": {"autoreset_mode": mode}} if mode else {})
    made.env_runners(num_envs_per_env_runner=envs, gym_env_vectorize_mode=vectorize, **keywords)
    made.replay("Uniform", capacity=1_000)
    made.training(
        hiddens=(16,),
        train_batch_size_per_learner=8,
        num_steps_sampled_before_learning_starts=500,
        steps_per_iteration=90,
    )
    return made.debugging(seed=0).build_algo()


def flat(obs):
    return torch.cat([obs["episode"], obs["step"]], dim=1) if isinstance(obs, dict) else obs


@pytest.mark.parametrize("vectorize", ["sync", pytest.param("async", marks=pytest.mark.slow)])
@pytest.mark.parametrize("env", [ID, f"{ID[:-3]}Parts-v0"], ids=["box", "dict"])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_rows_contain_the_outcome_of_their_action(mode, env, vectorize):
    algorithm = build(mode, env, vectorize)
    result = algorithm.train()
    rows = algorithm.replay_buffer.storage[torch.arange(algorithm.env_steps)]
    obs, after = flat(rows.obs), flat(rows.next_obs)
    assert torch.equal(after, obs + torch.tensor([0.0, 1.0]))
    assert torch.equal(rows.terminated, after[:, 1] == 5) and not rows.truncated.any()
    assert (obs[:, 1] < 5).all() and rows.terminated.sum() > 10
    for episode in rows.episode.unique():
        mine = obs[rows.episode == episode]
        assert torch.equal(mine[:, 1], torch.arange(len(mine)).float()) and len(mine[:, 0].unique()) == 1
    assert result["env_runners"]["episode_return_mean"] == 5 == result["env_runners"]["episode_len_mean"]
    algorithm.stop()


def test_evaluation_episodes_are_complete_with_same_step_resets():
    algorithm = build(AutoresetMode.SAME_STEP)
    episodes = algorithm.env_runner.sample(num_episodes=7, explore=False)
    assert len(episodes) >= 7
    for episode in episodes:
        assert [int(step) for _, step in episode.get_observations()] == [0, 1, 2, 3, 4, 5]
    algorithm.stop()


def test_disabled_autoreset_is_rejected():
    with pytest.raises(ValueError, match="autoreset_mode of the vector environment .* is DISABLED; expected NEXT_STEP"):
        build(AutoresetMode.DISABLED)


def test_a_missing_final_observation_is_reported():
    algorithm = build(None, f"{ID[:-3]}Silent-v0", "vector_entry_point")
    with pytest.raises(EnvironmentFailure, match="SAME_STEP.* puts no final_obs"):
        algorithm.train()
    algorithm.stop()
