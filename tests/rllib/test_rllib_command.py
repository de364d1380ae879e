"""The command `rllib`: algorithms by name, experiments from flags and files, and policies that are watched."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from interreplay.errors import CheckpointError, UsageError
from interreplay.rllib.command import main
from interreplay.rllib.command.algorithm_names import config_for, names
from interreplay.rllib.command.experiments import configured, read_file, read_settings
from interreplay.rllib.evaluation.play import Watching, watch
from tests.rllib.test_training import cluster, config  # noqa: F401


@pytest.mark.parametrize(
    ("run", "env", "module"),
    [
        ("SAC", "Pendulum-v1", "interreplay.rllib.algorithms.sac"),
        ("TD3", "Pendulum-v1", "interreplay.rllib.algorithms.td3"),
        ("SAC", "CartPole-v1", "interreplay.rllib.algorithms.sac"),
        ("SAC-stock", "CartPole-v1", "ray.rllib.algorithms.sac.sac"),
        ("SAC-stock", "Pendulum-v1", "ray.rllib.algorithms.sac.sac"),
        ("PPO", "CartPole-v1", "ray.rllib.algorithms.ppo.ppo"),
        ("DQN", "CartPole-v1", "ray.rllib.algorithms.dqn.dqn"),
    ],
)
def test_algorithms_by_name(run, env, module):
    made = config_for(run, env, str)
    assert made.algo_class.__module__ == module and made.env == env


def test_retired_environments_are_replaced_and_said():
    said = []
    assert config_for("SAC", "HalfCheetah-v2", said.append).env == "HalfCheetah-v5"
    assert len(said) == 1 and "HalfCheetah-v5" in said[0]


@pytest.mark.parametrize(
    ("run", "env", "parts"),
    [
        ("SACK", "Pendulum-v1", ["'SACK'", "did you mean SAC?", "PPO"]),
        ("TD3", "CartPole-v1", ["TD3 acts in a Box of continuous actions", "Discrete(2)", "--run SAC"]),
        ("SAC", "Pendulumm-v1", ["Pendulumm-v1", "Pendulum-v1"]),
    ],
)
def test_unknown_names(run, env, parts):
    with pytest.raises(UsageError) as caught:
        config_for(run, env, str)
    assert all(part in str(caught.value) for part in parts)
    assert names()[0] == "SAC" and "SAC-stock" in names()


def test_settings_of_an_algorithm():
    made = configured(config_for("SAC", "Pendulum-v1", str), {
        "tau": 0.1, "replay_buffer_config": {"type": "NMER", "k": 3}, "num_env_runners": 0,
    })  # fmt: skip
    assert (made.tau, made.replay_buffer_config) == (0.1, {"type": "NMER", "k": 3})
    with pytest.raises(UsageError, match="no setting 'taau'; did you mean tau"):
        configured(config_for("SAC", "Pendulum-v1", str), {"taau": 0.1})


def test_choices_of_a_grid_are_what_each_would_be_alone():
    points = [{"type": "NMER", "k": 3}, {"type": "Uniform"}]
    made = configured(config_for("SAC", "Pendulum-v1", str), {"replay_buffer_config": {"grid_search": points}})
    assert made.replay_buffer_config == {"grid_search": points}
    with pytest.raises(UsageError, match="no argument 'kk'"):
        points[0]["kk"] = 1
        configured(config_for("SAC", "Pendulum-v1", str), {"replay_buffer_config": {"grid_search": points}})


@pytest.mark.parametrize(("run", "env"), [("SAC-stock", "Pendulum-v1"), ("DQN", "CartPole-v1")])
def test_rllibs_own_algorithms_take_our_replay_methods(run, env):
    replay = {"type": "CER" if run == "DQN" else "NMER", "capacity": 500}
    made = configured(config_for(run, env, str), {"replay_buffer_config": replay, "num_env_runners": 0})
    made.validate()
    assert made.algo_class.__name__ == f"Stock{run.removesuffix('-stock')}" and made.env == env
    kept = configured(config_for(run, env, str), {"replay_buffer_config": {"type": "PrioritizedEpisodeReplayBuffer"}})
    assert kept.algo_class.__name__ == run.removesuffix("-stock")


def test_settings_from_text_and_files(tmp_path):
    (tmp_path / "a.yaml").write_text("tau: 0.1\nhiddens: [8, 8]\n")
    expected = {"tau": 0.1, "hiddens": [8, 8]}
    assert read_settings(str(tmp_path / "a.yaml")) == expected
    assert read_settings('{"tau": 0.1, "hiddens": [8, 8]}') == expected
    assert read_settings("{tau: 0.1, hiddens: [8, 8]}") == expected
    for wrong in ("{tau: ", "tau", str(tmp_path / "none.json")):
        with pytest.raises(UsageError, match="JSON"):
            read_settings(wrong)


def test_experiments_from_a_file_of_tuned_examples(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("""
pendulum-sac:
    env: Pendulum-v1
    run: SAC
    stop: {episode_reward_mean: -200, timesteps_total: 20000}
    config: {tau: 0.01, seed: {grid_search: [0, 1]}}
cartpole-ppo: {run: PPO, config: {env: CartPole-v1, lr: 0.001}, num_samples: 2}
""")
    one, two = read_file(path)
    assert (one.name, one.run, one.env) == ("pendulum-sac", "SAC", "Pendulum-v1")
    assert one.config == {"tau": 0.01, "seed": {"grid_search": [0, 1]}}
    assert (two.env, two.config, two.num_samples) == ("CartPole-v1", {"lr": 0.001}, 2)
    stop = one.tuner(tmp_path)._local_tuner.get_run_config().stop
    assert stop == {"env_runners/episode_return_mean": -200, "num_env_steps_sampled_lifetime": 20000}
    for text in ("a: {run: SAC}", "a: {run: SAC, env: Pendulum-v1, stopp: {}}", "[1]"):
        path.write_text(text)
        with pytest.raises(UsageError, match=r"x\.yaml"):
            read_file(path)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("train", ["--run and --env"]),
        ("train --run SAC", ["--run and --env"]),
        ("train --run SAC --env Pendulum-v1 -f x.yaml", ["--run and --env"]),
        ("train -f none.yaml", ["none.yaml"]),
        ("train --run SAC --env Pendulum-v1 --config {taau:1}", ["taau:1", "did you mean tau?"]),
        (
            'train --run SAC --env Pendulum-v1 --config {"tau":7}',
            ["SAC: tau is 7; expected a number above 0"],
        ),
        ('train --run SAC --env Pendulum-v1 --config {"hiddens":"x"}', ["hiddens"]),
        ('train --run SAC --env Pendulum-v1 --config {"replay_buffer_config":{"type":"NMR"}}', ["did you mean 'NMER'"]),
        ('train --run DQN --env CartPole-v1 --config {"replay_buffer_config":{"type":"NMR"}}', ["did you mean 'NMER'"]),
        ('train --run DQN --env CartPole-v1 --config {"replay_buffer_config":{"type":"NMER","kk":1}}', ["'kk'"]),
        ('train --run SAC --env Pendulum-v1 --stop {"env_step":1}', ["'env_step'", "did you mean env_steps?"]),
        ('train --run SAC --env Pendulum-v1 --stop {"env_steps":"x"}', ["env_steps 'x'", "a number"]),
        ("train --run SAC --env Pendulum-v1 --resume --local-dir none", ["no experiment to go on with"]),
        ("evaluate none", ["none does not exist"]),
        ("evaluate . ", ["no checkpoint"]),
        ("evaluate . --render-to a.avi", ["a.avi", ".gif or .mp4"]),
    ],
)
def test_bad_input(line, parts, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(main, "start_ray", lambda cpus: None)
    assert main.main(line.split()) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and all(part in error for part in parts)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "checkpoint_000001"
    algorithm = config("InvertedPendulum-v5").build_algo()
    algorithm.train()
    algorithm.save_to_path(folder)
    return folder


def test_other_algorithms_and_damaged_checkpoints_are_refused(trained, tmp_path):
    with pytest.raises(UsageError, match="made by SAC, not PPO"):
        watch(trained, Watching("PPO", episodes=1))
    (tmp_path / "rllib_checkpoint.json").write_text("{}")
    with pytest.raises(CheckpointError, match="cannot be read"):
        watch(tmp_path, Watching(episodes=1))


@pytest.mark.slow
def test_discrete_actions_train_then_are_evaluated(tmp_path, capsys):
    settings = "{num_steps_sampled_before_learning_starts: 150, min_sample_timesteps_per_iteration: 200}"
    words = f"train --run SAC --env CartPole-v1 --verbose 0 --local-dir {tmp_path}/r".split()
    words += ["--stop", "{training_iteration: 1}", "--config", settings]
    assert main.main(words) == 0
    assert "checkpoint" in capsys.readouterr().out
    assert main.main(["evaluate", f"{tmp_path}/r", "--run", "SAC", "--episodes", "2"]) == 0
    assert "2 episodes: return" in capsys.readouterr().out


@pytest.mark.slow
def test_an_interrupted_command_says_how_to_go_on_and_does_and_evaluates(tmp_path):
    shell = [sys.executable, "-m", "interreplay.rllib.command.main"]
    command = [*shell, "train", "--run", "SAC", "--env", "Pendulum-v1"]
    command += "--num-cpus 2 --verbose 0 --local-dir r --checkpoint-freq 1".split()
    command += [
        "--stop",
        "{env_steps: 1000}",
        "--config",
        "{num_steps_sampled_before_learning_starts: 50, steps_per_iteration: 100, hiddens: [8, 8]}",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        end = time.monotonic() + 120
        while not list(tmp_path.glob("r/default/*/checkpoint_*")) and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "go on with the same command and --resume" in err
    done = subprocess.run([*command, "--resume"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "1,000 steps, return" in done.stdout
    (table,) = tmp_path.glob("r/default/*/result.json")
    steps = [json.loads(line)["num_env_steps_sampled_lifetime"] for line in table.read_text().splitlines()]
    assert steps[-1] == 1_000 and set(range(100, 1_001, 100)) == set(steps)
    words = ["evaluate", "r", "--run", "SAC", "--episodes", "2"]
    watched = subprocess.run([*shell, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert watched.returncode == 0, watched.stderr[-2000:]
    assert "2 episodes: return" in watched.stdout
