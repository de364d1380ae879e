"""The DeepMind control suite: flat observations, truncation at its time limit, training."""

import json

import gymnasium as gym
import numpy as np
import pytest

from custom_training import main
from interreplay.environments import registration
from interreplay.environments.lookup import find_environment
from interreplay.errors import UsageError

NAME = "dm_control/cheetah-run-v0"
installed = pytest.mark.skipif(registration.register(NAME) != "", reason="the extra dm-control is not installed")


@installed
def test_observations_are_the_parts_side_by_side_in_float32():
    env = gym.make(NAME)
    parts = env.unwrapped.observation_space
    obs, _ = env.reset(seed=3)
    expected = env.unwrapped._env.task.get_observation(env.unwrapped._env.physics)
    assert list(parts) == ["position", "velocity"] and env.observation_space.shape == (17,)
    assert obs.dtype == env.observation_space.dtype == np.float32
    assert np.array_equal(obs, np.concatenate([expected[name] for name in parts]).astype(np.float32))
    again, _ = gym.make(NAME).reset(seed=3)
    assert np.array_equal(obs, again)


@installed
def test_the_time_limit_truncates():
    env = gym.make("dm_control/pendulum-swingup-v0")
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(1000)]
    assert ends[-1] == (False, True) and not any(map(any, ends[:-1]))


@installed
def test_environments_by_name():
    assert find_environment(NAME).name == NAME
    assert find_environment("dm_control/walker-walk").name == "dm_control/walker-walk-v0"
    with pytest.raises(UsageError, match="did you mean dm_control/cheetah-run-v0"):
        find_environment("dm_control/cheeta-run-v0")


@installed
@pytest.mark.slow
def test_training_and_resuming(tmp_path, capsys):
    line = f"--env {NAME} --buffer LCER --horizon 40 --steps_per_iteration 100 --learning_starts 50 --hiddens 8,8"
    line += f" --buffer_size 500 --train_batch_size 16 --evaluation_num_episodes 1 --local_dir {tmp_path}"
    assert main([*line.split(), "--total_env_steps", "200"]) == 0
    out, err = capsys.readouterr()
    assert "defaults for this environment: --initial_alpha 0.1\n" in out and err == ""
    (folder,) = tmp_path.iterdir()
    assert main(["--resume", str(folder), "--total_env_steps", "300"]) == 0
    last = json.loads((folder / "result.json").read_text().splitlines()[-1])
    assert last["evaluation"]["env_runners"]["episode_len_mean"] == 40, "the horizon holds in evaluation too"
