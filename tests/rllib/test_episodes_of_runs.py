"""`episode_table` in training: every algorithm and kind of runner, and equal files after a resume."""

import json

import gymnasium as gym
import pytest

import custom_training
from interreplay import log_to, rllib
from interreplay.diagnostics.episode_table import EPISODE_RETURN
from interreplay.environments.atari import KEY
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.rllib import DQNConfig
from tests.experiments.commands.command_lines import read_csv
from tests.rllib.small_runs import config, same, weights

SMALL = "--total_env_steps 300 --steps_per_iteration 100 --learning_starts 60 --train_batch_size 16 --hiddens 8".split()
QUIET = "--buffer_size 1000 --evaluation_interval 0 --preset none --quiet".split()
REPLAYING = [name for name, row in ALGORITHMS.items() if not row.unrolls]


def trained(tmp_path, *words):
    assert custom_training.main([*SMALL, *QUIET, "--episode_table", *words, "--output_dir", str(tmp_path)]) == 0
    (folder,) = tmp_path.iterdir()
    return folder


@pytest.mark.parametrize("trainer", REPLAYING)
def test_every_algorithm_reports_its_values(trainer):
    assert "q_mean" in getattr(rllib, ALGORITHMS[trainer].config).update_class.metrics


@pytest.mark.slow
@pytest.mark.parametrize("words", ["--num_envs_per_worker 3", "--num_workers 2"])
def test_returns_are_those_of_the_results(words, tmp_path):
    long = "--env Pendulum-v1 --horizon 20 --total_env_steps 600 --steps_per_iteration 200"
    folder = trained(tmp_path, *long.split(), *words.split())
    found = read_csv(folder / "episodes.csv")
    last = json.loads((folder / "result.json").read_text().splitlines()[-1])["env_runners"]
    newest = [float(row["return"]) for row in found[-10:]]  # over which results are averaged
    assert {row["length"] for row in found} == {"20"}
    assert sum(newest) / len(newest) == pytest.approx(last["episode_return_mean"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("buffer", ["PER", "ModelBased"])
def test_a_run_resumed_in_the_middle_of_an_episode_has_equal_files(buffer, tmp_path):
    """At the kept checkpoint of an iteration's middle, the file already has later episodes."""
    more = ["--buffer_arg", "model_hiddens=8,8", "--buffer_arg", "max_epochs=2"] if buffer == "ModelBased" else []
    words = ["--env", "Pendulum-v1", "--horizon", "30", "--buffer", buffer, *more, "--keep_checkpoints_at", "160"]
    folder = trained(tmp_path, *words)
    whole = (folder / "episodes.csv").read_text()
    assert len(read_csv(folder / "episodes.csv")) == 10
    assert custom_training.main(["--resume", str(folder / "kept_checkpoint_00000160"), "--quiet"]) == 0
    assert (folder / "episodes.csv").read_text() == whole


@pytest.mark.slow
def test_learning_does_not_depend_on_the_table_and_python_writes_the_file(tmp_path):
    algorithms = []
    for table in (False, True):
        algo = config().environment("Pendulum-v1", env_config={"max_episode_steps": 20})
        algo = algo.training(episode_table=table).build_algo()
        with log_to(algo, tmp_path / str(table)) as log:
            log.write(algo.train())
            log.write(algo.train())
        algorithms.append(algo)
    assert same(*map(weights, algorithms))
    assert not (tmp_path / "False" / "episodes.csv").exists() and algorithms[0].episode_table is None
    assert EPISODE_RETURN not in algorithms[0]._recorded
    assert len(read_csv(tmp_path / "True" / "episodes.csv")) == 7 and algorithms[1].episode_table.take() == []


class Lives(gym.Wrapper):
    """Reports a lost life every 5 steps, and rewards of 1 to the learner."""

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.steps = getattr(self, "steps", 0) + 1
        return obs, 10.0, terminated, truncated, info | {KEY: (1.0, self.steps % 5 == 0, 10.0, terminated)}


gym.register("LivesForTables-v0", entry_point=lambda: Lives(gym.make("CartPole-v1").unwrapped), max_episode_steps=20)


def test_unmodified_returns_of_whole_games():
    made = DQNConfig().environment("LivesForTables-v0").training(episode_table=True, steps_per_iteration=100)
    algo = made.build_algo()
    algo.env_runner._has_learner_view = True
    algo.train()
    assert algo.episode_table.rows
    for row in algo.episode_table.rows:
        assert row["return"] == 10.0 * row["length"]
