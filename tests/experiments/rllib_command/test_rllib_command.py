"""The command `rllib`: algorithms by name, experiments from flags and files, and policies that are watched."""

import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pandas as pd
import pytest
from ray.train._internal.storage import StorageContext
from ray.tune.experiment import Trial
from ray.tune.search.variant_generator import generate_variants

from interreplay.buffer.catalogue import make_buffer, methods
from interreplay.errors import UsageError
from interreplay.experiments.rllib_command import main
from interreplay.experiments.rllib_command.experiments import (
    Experiment,
    configure,
    make_default_config,
    names,
    read_file,
    read_settings,
)
from interreplay.experiments.rllib_command.main import ProgressTable, SaveOnSignal

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.usefixtures("cluster")


MODULES = {
    ("SAC", "Pendulum-v1"): "interreplay.rllib.algorithms.sac",
    ("CrossQ", "Pendulum-v1"): "interreplay.rllib.algorithms.sac",
    ("SAC", "CartPole-v1"): "interreplay.rllib.algorithms.sac",
    ("SAC-stock", "CartPole-v1"): "ray.rllib.algorithms.sac.sac",
    ("PPO", "CartPole-v1"): "ray.rllib.algorithms.ppo.ppo",
    ("DQN", "CartPole-v1"): "interreplay.rllib.algorithms.dqn",
    ("DQN-stock", "CartPole-v1"): "ray.rllib.algorithms.dqn.dqn",
}


def test_algorithms_by_name():
    for (run, env), module in MODULES.items():
        made = make_default_config(run, env, str)
        assert made.algo_class.__module__ == module and made.env == env
    output = []
    assert make_default_config("SAC", "HalfCheetah-v2", output.append).env == "HalfCheetah-v5"
    assert len(output) == 1 and "HalfCheetah-v5" in output[0]
    assert names()[0] == "SAC" and {"SAC-stock", "DQN-stock"} <= {*names()}


def test_arguments_of_the_environment_are_known():
    """With them, LunarLander has continuous actions."""
    pytest.importorskip("Box2D")
    settings = {"env_config": {"continuous": True}, "hiddens": [8]}
    experiment = Experiment("x", "TD3", "LunarLander-v3", config=settings)
    assert experiment.request()["CPU"] >= 1
    with pytest.raises(UsageError, match="TD3 requires continuous actions"):
        Experiment("x", "TD3", "LunarLander-v3", config={"hiddens": [8]}).request()


def test_choices_of_a_grid_are_what_each_would_be_alone():
    points = [{"type": "NMER", "k": 3}, {"type": "Uniform"}]
    made = configure(make_default_config("SAC", "Pendulum-v1", str), {"replay_buffer_config": {"grid_search": points}})
    assert made.replay_buffer_config == {"grid_search": points}
    with pytest.raises(UsageError, match="no argument 'kk'"):
        configure(make_default_config("SAC", "Pendulum-v1", str), {"replay_buffer_config": points[0] | {"kk": 1}})


@pytest.mark.parametrize(("run", "env"), [("SAC-stock", "Pendulum-v1"), ("DQN-stock", "CartPole-v1")])
def test_rllibs_own_algorithms_take_our_replay_methods(run, env):
    replay = {"type": "CER" if run == "DQN-stock" else "NMER", "capacity": 500}
    made = configure(make_default_config(run, env, str), {"replay_buffer_config": replay, "num_env_runners": 0})
    made.validate()
    assert made.algo_class.__name__ == f"Stock{run.removesuffix('-stock')}" and made.env == env
    stock = {"replay_buffer_config": {"type": "PrioritizedEpisodeReplayBuffer"}}
    kept = configure(make_default_config(run, env, str), stock)
    assert kept.algo_class.__name__ == run.removesuffix("-stock")


def test_settings_from_text_and_files(tmp_path):
    (tmp_path / "a.yaml").write_text("tau: 0.1\nhiddens: [8, 8]\n")
    expected = {"tau": 0.1, "hiddens": [8, 8]}
    assert read_settings(str(tmp_path / "a.yaml")) == expected
    assert read_settings('{"tau": 0.1, "hiddens": [8, 8]}') == expected
    assert read_settings("{tau: 0.1, hiddens: [8, 8]}") == expected
    lines = [f"setting_{number}: {number}" for number in range(40)]
    assert len(read_settings("\n".join(lines))) == 40  # longer than the name of a file can be
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


@pytest.mark.slow
def test_signals_save_and_the_command_resumes(tmp_path, monkeypatch, capsys):
    shell = [sys.executable, "-m", "interreplay.experiments.rllib_command.main"]
    words = "train --run SAC --env Pendulum-v1 --num-cpus 2 --local-dir r".split()
    settings = "{num_steps_sampled_before_learning_starts: 50, steps_per_iteration: 100, hiddens: [8, 8]}"
    words += ["--stop", "{env_steps: 1000}", "--config", settings]

    def stopped_by(number: int) -> tuple[int, str, int]:
        process = subprocess.Popen([*shell, *words], cwd=tmp_path, stderr=-1, stdout=-1, text=True)
        try:
            # The table shows the first result at once; Tune writes the files of results some seconds later.
            assert any(line.startswith("SAC_Pendulum-v1") for line in process.stdout), process.communicate()[1]
            process.send_signal(number)
            err = process.communicate(timeout=500)[1]
        finally:
            process.kill()
        return process.returncode, err, max(env_steps(tmp_path), default=0)

    code, err, reached = stopped_by(signal.SIGTERM)
    stopped = "rllib: stopped; all trials were saved; continue with the same command and --resume"
    assert code == 75 and stopped in err and "stopping after the current iteration" in err, (code, err)
    assert "Traceback" not in err and "SIGTERM" not in err and len(err.splitlines()) <= 3, err
    assert len(list(tmp_path.glob("r/default/*/checkpoint_*"))) == 1 and 0 < reached < 1000
    monkeypatch.chdir(tmp_path)
    assert main.main([*words, "--resume"]) == 0
    out = capsys.readouterr().out
    assert "1,000 steps, return" in out and "iteration    env steps     return" in out
    assert env_steps(tmp_path) == list(range(100, 1001, 100))  # no step was repeated
    for before, result in pairwise(results(tmp_path)):
        clock = before["time_total_s"] + result["time_this_iter_s"]
        assert result["time_total_s"] >= clock * (1 - 1e-9)


BREAKS = """
import os
import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv

class Breaks(PendulumEnv):
    steps = 0

    def __init__(self, last_step, **arguments):
        super().__init__(**arguments)
        self.last_step = last_step

    def step(self, action):
        self.steps += 1
        if self.steps == self.last_step and os.path.exists({file!r}):
            raise RuntimeError("no power")
        return super().step(action)

gym.register("Breaks-v0", Breaks, max_episode_steps=200)
"""


@pytest.mark.slow
def test_failed_trials_resume_from_their_checkpoints_or_begin_again(tmp_path):
    broken = tmp_path / "broken"
    broken.touch()
    (tmp_path / "breaks.py").write_text(BREAKS.format(file=str(broken)))
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    words = "train --run SAC --env breaks:Breaks-v0 --num-cpus 2 --local-dir r --checkpoint-freq 2".split()
    settings = "num_steps_sampled_before_learning_starts: 1000, steps_per_iteration: 100, hiddens: [8, 8]"
    grid = "env_config: {last_step: {grid_search: [150, 350]}}"
    words += ["--stop", "{env_steps: 400}", "--config", f"{{{settings}, {grid}}}"]

    def run(*more: str) -> subprocess.CompletedProcess:
        shell = [sys.executable, "-m", "interreplay.experiments.rllib_command.main", *words, *more]
        env = os.environ | {"PYTHONPATH": path}
        return subprocess.run(shell, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=500)

    failed = run()
    assert failed.returncode == 1 and "Traceback" not in failed.stderr, failed.stderr
    for step, again in ((150, "begins again"), (350, "continues from its checkpoint")):
        cause = rf"raised RuntimeError: no power, at env step {step}; the same command with --resume {again}"
        assert re.search(f"^failed: .*: EnvironmentFailure: the environment .*Breaks-v0 {cause}", failed.stdout, re.M)
        assert re.search(rf"failed; .*last_step={step}.*/error\.txt holds the traceback", failed.stdout)
    tables = sorted(tmp_path.glob("r/default/*/result.json"))
    assert list(map(read_steps, tables)) == [[100], [100, 200, 300]]
    broken.unlink()
    resumed = run("--resume")
    assert resumed.returncode == 0 and resumed.stdout.count("400 steps, return") == 2, resumed.stderr
    for table in tables:
        assert read_steps(table) == [100, 200, 300, 400], "no step was repeated"
        assert list(pd.read_csv(table.with_name("progress.csv"))["training_iteration"]) == [1, 2, 3, 4]


class LoggedTrial(NamedTuple):
    """A trial as a logger sees it."""

    local_path: str
    checkpoint: None = None

    def init_local_path(self) -> None:
        pass


def test_a_resumed_trial_keeps_the_columns_of_its_table(tmp_path):
    (tmp_path / "progress.csv").write_text("training_iteration,score\n1,5\n")
    trial = LoggedTrial(str(tmp_path))
    table = main.ResultTable()
    table.log_trial_result(2, trial, {"loss": 0.5, "score": 7, "training_iteration": 2})
    table.log_trial_result(3, trial, {"training_iteration": 3})
    table.log_trial_end(trial)
    assert (tmp_path / "progress.csv").read_text().split() == ["training_iteration,score", "1,5", "2,7", "3,"]


def test_results_beyond_the_last_checkpoint_are_dropped(tmp_path, monkeypatch):
    trials = []
    for status, saved in (("TERMINATED", None), ("ERROR", 2), ("RUNNING", 3), ("ERROR", None)):
        folder = tmp_path / f"{status}_{saved}"
        folder.mkdir()
        (folder / "error.txt").touch()
        (folder / "result.json").write_text("".join(f'{{"training_iteration": {n}}}\n' for n in (1, 2, 3)))
        (folder / "progress.csv").write_text("training_iteration\n1\n2\n3\n")
        checkpoint = None if saved is None else SimpleNamespace(metrics={"training_iteration": saved})
        storage = SimpleNamespace(trial_fs_path=str(folder), trial_dir_name=folder.name)
        made = SimpleNamespace(status=status, TERMINATED="TERMINATED", storage=storage)
        made.latest_checkpoint_result = checkpoint
        trials.append(made)
    trials.append(Trial("SAC", stub=True, storage=StorageContext(str(tmp_path), tmp_path.name)))  # it has never run
    monkeypatch.setattr(main.tune, "ExperimentAnalysis", lambda folder: SimpleNamespace(trials=trials))
    main.rewind_trials(tmp_path)
    left = {}
    for table in tmp_path.glob("*/result.json"):
        left[table.parent.name] = len(table.read_text().splitlines())
        assert len(table.with_name("progress.csv").read_text().splitlines()) == 1 + left[table.parent.name]
    assert left == {"TERMINATED_None": 3, "ERROR_2": 2, "RUNNING_3": 3}
    assert not list((tmp_path / "ERROR_None").iterdir()), "the trial begins again"


def test_signals_reach_every_experiment_of_a_file():
    saver = SaveOnSignal()
    trial = SimpleNamespace(trial_id="a", status="RUNNING")
    ended: list[str] = []
    before = signal.getsignal(signal.SIGUSR1)
    try:
        for name in ("first", "second"):
            signal.signal(signal.SIGUSR1, lambda number, frame, name=name: ended.append(name))  # as Tune does
            saver.on_step_begin(0, [trial])
            saver.on_step_begin(1, [trial])
        signal.raise_signal(signal.SIGUSR1)
        result: dict = {}
        saver.on_trial_result(1, [trial], trial, result)
        saver.on_step_end(1, [trial])
        assert result == {"should_checkpoint": True} and ended == []
        saver.stop()
        saver.on_checkpoint(2, [trial], trial, None)
        saver.on_step_end(2, [trial])
        assert ended == ["second"]
    finally:
        signal.signal(signal.SIGUSR1, before)


def results(folder) -> list[dict]:
    """Return the results of the only trial in a folder, [] if there are none."""
    tables = list(folder.glob("r/default/*/result.json"))
    lines = tables[0].read_text().splitlines(keepends=True) if tables else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def env_steps(folder) -> list[int]:
    """Return the env steps in the results of the only trial in a folder."""
    return [result["num_env_steps_sampled_lifetime"] for result in results(folder)]


def read_steps(table: Path) -> list[int]:
    """Return the env steps in a file of results."""
    return [json.loads(line)["num_env_steps_sampled_lifetime"] for line in table.read_text().splitlines()]


def test_what_a_trial_requests_is_known_before_it_starts(monkeypatch):
    for run, settings, cpus in (
        ("PPO", {}, 3),
        ("PPO", {"num_env_runners": 0}, 1),
        ("SAC", {}, 1),
        ("SAC", {"num_env_runners": 3, "num_cpus_per_env_runner": 2}, 7),
    ):
        experiment = Experiment("one", run, "CartPole-v1", config=settings)
        assert experiment.request() == {"CPU": cpus, "GPU": 0}
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr(main, "count_cpus", lambda: 2)
    monkeypatch.setattr(main, "count_gpus", lambda: 0)
    assert main.resources([experiment], None) == {"CPU": 7, "GPU": 0}, "processes share the CPUs of our own Ray"
    with pytest.raises(UsageError, match="a trial requests 7 CPUs, available: 3 CPUs; reduce num_env_runners"):
        main.resources([experiment], 3)
    monkeypatch.setattr(Experiment, "request", lambda self: {"CPU": 1, "GPU": 1})
    with pytest.raises(UsageError, match="a trial requests 1 GPU, available: 0 GPUs"):
        main.resources([experiment], None)


ON_TWO_CORES = """
import os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
from interreplay.experiments.rllib_command.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_the_readmes_ppo_shares_two_cores(tmp_path):
    (line,) = re.findall(r"`rllib (train --run PPO [^`]+)`", (ROOT / "README.md").read_text())
    short = {"train_batch_size_per_learner": 200, "minibatch_size": 50, "num_epochs": 1}
    words = [*shlex.split(line.replace("5}", "1}")), "--config", json.dumps(short), "--output_dir", str(tmp_path)]
    command = [sys.executable, "-c", ON_TWO_CORES, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "200 steps, return" in done.stdout


def given(words: str, *more: str):
    return main.make_parser().parse_args([*words.split(), *more])


def test_flags_override_a_file(tmp_path):
    text = "{run: SAC, env: Pendulum-v1, stop: {timesteps_total: 9}, config: {tau: 0.1, gamma: 0.9}, num_samples: 3}"
    (tmp_path / "x.yaml").write_text(f"one: {text}\ntwo: {text}\n")
    line = f"train -f {tmp_path}/x.yaml --num_samples 2 --checkpoint_freq 5 --stop"
    found = main.read_experiments(given(line, "{env_steps: 7}", "--config", "{gamma: 0.5}"))
    assert [each.name for each in found] == ["one", "two"]
    for each in found:
        assert (each.stop, each.config) == ({"env_steps": 7}, {"tau": 0.1, "gamma": 0.5})
        assert (each.num_samples, each.checkpoint_freq) == (2, 5)
    (tmp_path / "x.yaml").write_text(f"one: {text}\n")
    (alone,) = main.read_experiments(given(f"train -f {tmp_path}/x.yaml --experiment_name zz"))
    assert (alone.name, alone.num_samples, alone.stop) == ("zz", 3, {"timesteps_total": 9})


def test_progress_is_a_table_with_returns():
    lines: list[str] = []
    table = ProgressTable(lines.append, seconds=1e9)
    trial = SimpleNamespace(trial_id="a")
    for n, more in enumerate(({}, {"env_runners": {"episode_return_mean": 1.0}}, {"done": True}), 1):
        result = {"training_iteration": n, "num_env_steps_sampled_lifetime": 1000 * n, "time_total_s": 2.0}
        table.on_trial_result(n, [trial], trial, result | more)
    expected = [["steps", "return", "seconds"], ["1,000", "-", "2"], ["3,000", "-", "2"]]
    assert [line.split()[-3:] for line in lines] == expected


FOLDER = Path(__file__).resolve().parents[3] / "examples" / "tuned"
FILES = sorted(FOLDER.glob("*.yaml"))


def variants(path: Path):
    for experiment in read_file(path):
        if experiment.env.startswith("dm_control/") and importlib.util.find_spec("dm_control") is None:
            pytest.skip("dm_control is not installed")
        for _, settings in generate_variants(experiment.config):
            yield experiment, settings


def test_every_file_is_described():
    described = (FOLDER / "README.md").read_text()
    assert FILES and all(f"`{path.name}`" in described for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_of_experiments_is_accepted(path, tmp_path):
    for experiment, settings in variants(path):
        config = configure(make_default_config(experiment.run, experiment.env, str), settings)
        config.validate()
        replay = dict(settings.get("replay_buffer_config", {}))
        if replay.get("type") in methods():
            make_buffer(replay.pop("type"), **replay | {"capacity": 100})
        assert experiment.request()["GPU"] == 0
        assert experiment.tuner(tmp_path)._local_tuner.get_run_config().stop
