"""Training on Atari games: stored rows, reported results, and a run that is resumed in the middle of a game."""

import json

import gymnasium as gym
import numpy as np
import pytest
import torch

from interreplay.environments import registration
from interreplay.environments.lookup import find_environment
from interreplay.environments.relabeled import WRAPPER
from interreplay.environments.wrapped import make_id
from interreplay.experiments.commands.train import main
from interreplay.learning.networks.convolutions import get_body
from interreplay.rllib import DQNConfig
from tests.rllib.test_checkpoints import assert_same_run


def config(env="ALE/Breakout-v5", **env_config):
    registration.register(env)
    made = DQNConfig().environment(env, env_config=env_config).replay("Uniform", capacity=400).debugging(seed=0)
    made.training(encoder="shallow", hiddens=(16,), train_batch_size=4, learning_starts=40, steps_per_iteration=60)
    return made.training(updates_per_step=0.25, epsilon_steps=100)


@pytest.mark.slow
def test_lives_end_rows_but_not_games_and_stored_rewards_are_clipped():
    algorithm = config(reward_clipping="soft_asymmetric").build_algo()
    runner = algorithm.env_runner
    rows = runner.collect(450, random_actions=True)
    finished = runner._state.log.take_finished()
    assert len(finished) >= 2
    assert rows.obs.dtype == torch.uint8 and rows.obs.shape[1:] == (4, 84, 84)
    ids, ends, rewards = rows.episode.numpy(), rows.terminated.numpy(), rows.rewards.numpy()
    first = np.unique(ids)[: len(finished)]
    for episode, game in zip(first, finished, strict=True):
        mine = np.flatnonzero(ids == episode)
        assert len(mine) == game.length and ends[mine].sum() == 5 and ends[mine[-1]], "five lives, one game"
        # Breakout's lowest bricks give 1, which the score counts; stored rewards are 5·tanh 1.
        assert game.ret == (rewards[mine] > 0).sum() and game.ret == int(game.ret)
        lost = mine[:-1][ends[mine[:-1]]]
        assert torch.equal(rows.next_obs[lost], rows.obs[lost + 1]), "the game continues where the life was lost"
    assert set(np.unique(rewards)) == {0.0, np.float32(5 * np.tanh(1))}
    # The storage keeps each frame once, also after a lost life.
    storage = algorithm.replay_buffer.storage
    storage.add(rows[:400])
    starts = len(np.unique(ids[:400]))
    distinct = storage._stacks.frames[""]._top
    assert distinct <= 400 + 4 * starts
    index = torch.arange(400)
    assert torch.equal(storage[index].obs, rows.obs[:400]) and torch.equal(storage[index].next_obs, rows.next_obs[:400])
    # No row continues a row with a lost life: n-step returns and bootstraps end there.
    assert (storage.successor(torch.from_numpy(np.flatnonzero(ends[:400]))) < 0).all()


class Costs(gym.Wrapper):
    """Costs of 2 in each step; a game ends after 20 steps."""

    def reset(self, **options):
        self.count = 0
        return self.env.reset(**options)

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.count += 1
        return obs, reward - 2, terminated or self.count == 20, truncated, info


@pytest.mark.slow
def test_rewards_and_terminations_of_wrappers_are_stored():
    name, arguments = make_id("ALE/Breakout-v5", {}, [{"type": f"{__name__}:Costs"}])
    algorithm = config().environment(name, env_config=arguments).build_algo()
    rows = algorithm.env_runner.collect(45, random_actions=True)
    assert set(rows.rewards.tolist()) <= {-2.0, -1.0} and rows.terminated[[19, 39]].all()


def costly_lives(obs, action, next_obs, reward, terminated, truncated):
    """Reward function: −3 for a lost life, which does not end an episode."""
    return np.where(terminated, -3.0, reward), np.zeros_like(terminated)


@pytest.mark.slow
@pytest.mark.parametrize("outer", [False, True], ids=["games", "wrapped_games"])
def test_relabeled_rewards_are_stored_and_scores_are_those_of_the_game(outer):
    wrappers = [{"type": f"{__name__}:Costs"}] * outer + [{"type": WRAPPER, "function": f"{__name__}:costly_lives"}]
    name, arguments = make_id("ALE/Breakout-v5", {}, wrappers)
    algorithm = config().environment(name, env_config=arguments).build_algo()
    rows = algorithm.env_runner.collect(300, random_actions=True)
    stored = set(rows.rewards.tolist())
    assert -3.0 in stored and stored <= ({-3.0, -2.0, -1.0} if outer else {-3.0, 0.0, 1.0})
    assert not rows.terminated.any()
    finished = algorithm.env_runner._state.log.take_finished()
    assert len(finished) >= 1 and all(game.ret < 0 if outer else game.ret >= 0 for game in finished)


@pytest.mark.slow
def test_resuming_in_mid_game_equals_not_stopping(tmp_path):
    """With sticky actions, after lost lives, including the emulator's random state."""
    made = lambda: config(max_frames=1_000).build_algo()
    straight = made()
    for _ in range(6):
        straight.train()
    stopped = made()
    for _ in range(2):
        stopped.train()
    log = stopped.env_runner._state.log
    game = stopped.env_runner.env.unwrapped.envs[0].unwrapped
    assert log.lengths[0] > 0 and 0 < game.emulator.lives() < 5, "in the middle of a game"
    stopped.save_to_path(tmp_path / "c")
    resumed = made()
    resumed.restore_from_path(tmp_path / "c")
    for _ in range(4):
        resumed.train()
    assert_same_run(straight, resumed)
    assert len(np.unique(straight.replay_buffer.storage[torch.arange(360)].episode)) > 1, "through the end of a game"


def test_the_encoder_of_games_is_natures():
    space = find_environment("ALE/Pong-v5").observation_space
    chosen, named = get_body(space, "auto"), get_body(space, "nature")
    shapes = lambda body: [tuple(p.shape) for p in body.parameters()]
    assert shapes(chosen) == shapes(named) and shapes(chosen)[0] == (32, 4, 8, 8)


@pytest.mark.slow
def test_a_run_is_started_and_resumed_from_the_command_line(tmp_path, capsys):
    def run(*words):
        assert main([*words, "--local_dir", str(tmp_path)]) == 0
        return capsys.readouterr().out

    words = "--trainer DQN --env ALE/Pong-v5 --total_env_steps 300 --buffer_size 400 --learning_starts 280 --hiddens 16"
    words += " --steps_per_iteration 150 --evaluation_num_episodes 1 --env_args max_frames=400 reward_clipping=clamp"
    assert "0.00284 GB when full" in run(*words.split()), "a frame per row, as bytes"
    (folder,) = tmp_path.glob("DQN_ALE-Pong-v5_*")
    params = json.loads((folder / "params.json").read_text())
    assert params["env_args"] == {"max_frames": 400, "reward_clipping": "clamp"}
    run("--resume", str(folder), "--total_env_steps", "310")
    last = json.loads((folder / "result.json").read_text().splitlines()[-1])
    assert last["env_steps"] == 310 and last["evaluation"]["env_runners"]["episode_len_mean"] <= 100
