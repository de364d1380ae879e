"""Failures around a run: two processes in one folder, early stops, full disks, hangs, broken environments."""

import errno
import json
import math
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from builders import full_disk

import custom_training
from interreplay.acting.stored_policy import POLICY
from interreplay.errors import EnvironmentFailure, NonFiniteError, PartError, RunFailure, RunnerLost, UsageError
from interreplay.experiments.commands import train
from interreplay.experiments.training.result_log import EventFile
from interreplay.experiments.training.train_loop import Training
from interreplay.rllib import SACConfig
from interreplay.rllib.algorithms.loop import TrainingLoop
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm
from interreplay.runs import state_files
from interreplay.runs.resume import read_unwritten
from interreplay.runs.run_folder import STEPS, RunFolder
from interreplay.runs.state_files import disk
from interreplay.runs.state_files.disk import hold
from tests.experiments.commands.command_lines import (
    PATIENCE,
    checkpoints,
    one_line,
    rejects,
    rows,
    start,
    steps,
    the_run,
)

TINY = "--learning_starts 60 --train_batch_size 32 --buffer_size 2000 --hiddens 16,16 --evaluation_interval 0".split()
SHORT = ["--steps_per_iteration", "100", "--checkpoint_freq", "1", *TINY]

ENVS = '''
import os, signal, time
import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control import PendulumEnv

class Special(PendulumEnv):
    """Perform the action `kind` at the 130th step of the process, or at every 30th step."""
    def __init__(self, kind):
        super().__init__()
        self.kind, self.steps = kind, 0
    def step(self, action):
        self.steps += 1
        if self.kind == "hang" and self.steps == 130:
            time.sleep(1000)
        if self.kind == "term" and self.steps == 30:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().step(action)

class Explodes(gym.ObservationWrapper):
    """Gives observations of another environment, from the 130th on near the largest number that float32 has."""
    count = 0
    def observation(self, observation):
        self.count += 1
        return observation if self.count < 130 else np.sign(observation) * np.float32(3e38)

class Outside(PendulumEnv):
    """Declares smaller observations than it gives."""
    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Box(-.01, .01, (3,), np.float32)

gym.register("Outside-v0", entry_point=Outside, max_episode_steps=20)
gym.register("Explodes-v0", entry_point=lambda: Explodes(gym.make("Pendulum-v1")))
gym.register("ExplodesDiscrete-v0", entry_point=lambda: Explodes(gym.make("CartPole-v1")))
for kind in ("hang", "term"):
    gym.register(f"{kind.title()}-v0", entry_point=Special, kwargs={"kind": kind}, max_episode_steps=200)
'''


@pytest.fixture
def envs(tmp_path, monkeypatch):
    (tmp_path / "special_envs.py").write_text(ENVS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def new(local_dir: Path, *flags: object) -> list[str]:
    return [*map(str, flags), *SHORT, "--local_dir", str(local_dir)]


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> Path:
    """Make a run of 100 steps and return its folder."""
    parent = tmp_path_factory.mktemp("begun")
    assert custom_training.main(new(parent, "--env", "Pendulum-v1", "--total_env_steps", 100, "--quiet")) == 0
    return the_run(parent)


# -- one process per folder -------------------------------------------------------------------------


@pytest.mark.slow
def test_another_process_in_the_folder_is_respected(begun, capsys, monkeypatch):
    monkeypatch.setattr(train, "PATIENCE", 0.1)
    before = {path: path.stat().st_mtime_ns for path in begun.rglob("*")}
    with hold(begun, "a run"):
        words = ["--resume", str(begun), "--total_env_steps", "200"]
        rejects(capsys, custom_training.main, words, f"another process is using {begun}")
    assert {path: path.stat().st_mtime_ns for path in begun.rglob("*")} == before


@pytest.mark.slow
def test_a_run_of_a_study_is_resumed_by_the_study(begun, tmp_path, capsys):
    run = tmp_path / "study" / "run"
    run.parent.mkdir()
    run.symlink_to(begun)
    status = begun / "status.json"
    status.write_text("{}")
    try:
        assert custom_training.main(["--resume", str(begun), "--total_env_steps", "200"]) == 2
        one_line(capsys.readouterr().err, "is a run of the study", f"study --resume {begun.parent}")
        elsewhere = tmp_path / "elsewhere"
        line = ["--resume", str(begun), "--total_env_steps", "150", "--local_dir", str(elsewhere), "--quiet"]
        assert custom_training.main(line) == 0
        assert steps(the_run(elsewhere)) == [150] and steps(begun) == [100]
    finally:
        status.unlink()


# -- stopped early ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_that_is_stopped_before_its_first_iteration_ends_stays_in_its_folder(envs, tmp_path, capsys):
    parent = tmp_path / "results"
    assert custom_training.main(new(parent, "--env", "special_envs:Term-v0", "--total_env_steps", 100)) == 75
    run = the_run(parent)
    for at in (30, 60, 90):  # each process receives a signal to stop at its 30th step
        assert checkpoints(run)[-1] == f"checkpoint_{at:08d}" and not (run / "progress.csv").exists()
        code = custom_training.main(["--resume", str(run)])
        assert code == (75 if at < 90 else 0)
        assert the_run(parent) == run
    assert steps(run) == [100]
    assert "Traceback" not in capsys.readouterr().err


def wait_until_it_listens(process: subprocess.Popen[str]) -> None:
    """Wait until a process has a handler for SIGTERM, because Python's startup time varies."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        time.sleep(2.0)
    while status.exists() and process.poll() is None:
        caught = int(status.read_text().split("SigCgt:")[1].split()[0], 16)
        if caught >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 3.0])
def test_signals_while_it_starts(tmp_path, pause):
    process = start(*new(tmp_path, "--env", "Pendulum-v1", "--total_env_steps", 10**6))
    wait_until_it_listens(process)
    time.sleep(pause)  # during imports, and during Ray's start
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75, err
    assert "Traceback" not in err
    assert all(checkpoints(run) for run in tmp_path.iterdir())


def test_a_run_without_updates_prints_a_warning_first(tmp_path, capsys):
    line = ["--env", "Pendulum-v1", "--total_env_steps", "40", "--steps_per_iteration", "40", *TINY]
    assert custom_training.main([*line, "--local_dir", str(tmp_path)]) == 0
    before = capsys.readouterr().out.split(" steps/s ")[0]
    assert "no updates: random actions until 60 steps (--learning_starts), and the run ends at 40" in before


# -- full disks -------------------------------------------------------------------------------------


def fill(monkeypatch, at: int, checkpoints_too: bool):
    plain = EventFile.add_scalars
    save = OffPolicyAlgorithm.save_to_path

    def add_scalars(self, values, steps):
        return (full_disk if steps >= at else plain)(self, values, steps)

    def save_to_path(self, *args):
        return (full_disk if checkpoints_too and self.env_steps >= at else save)(self, *args)

    monkeypatch.setattr(EventFile, "add_scalars", add_scalars)
    monkeypatch.setattr(OffPolicyAlgorithm, "save_to_path", save_to_path)


FILLED = ["--env", "Pendulum-v1", "--total_env_steps", 300, "--quiet"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Make a run of 300 steps and return its folder."""
    parent = tmp_path_factory.mktemp("whole")
    assert custom_training.main(new(parent, *FILLED)) == 0
    return the_run(parent)


@pytest.mark.slow
@pytest.mark.parametrize(("at", "checkpoints_too"), [(100, False), (200, True), (300, False)])
def test_a_disk_that_fills_while_results_are_written_loses_nothing(
    whole, tmp_path, capsys, monkeypatch, at, checkpoints_too
):
    with monkeypatch.context() as patch:
        fill(patch, at, checkpoints_too)
        assert custom_training.main(new(tmp_path, *FILLED)) == 2
    run = the_run(tmp_path)
    newest = f"checkpoint_{at - 100 if checkpoints_too else at:08d}"
    kept = newest if checkpoints_too else f"kept in {run / newest}"
    one_line(capsys.readouterr().err, "No space left on device", kept)
    assert checkpoints(run)[-1] == newest and steps(run) == list(range(100, at, 100))
    assert custom_training.main(["--resume", str(run), "--quiet"]) == 0
    assert steps(run) == [100, 200, 300]
    assert "unwritten_result" not in json.loads((run / "params.json").read_text())
    for column in rows(whole)[0]:
        if column.startswith("learners/") or column.endswith(("return_mean", "return_max")):
            values = [[float(row[column] or "nan") for row in rows(folder)] for folder in (whole, run)]
            assert values[0] == pytest.approx(values[1], rel=1e-6, nan_ok=True), column
    rejects(capsys, custom_training.main, ["--resume", str(run), "--quiet"], "the run is complete at 300 steps")


ROW = {STEPS: 1000, "training_iteration": 1}


def training(folder, **more):
    """Return a run at its 1000th step."""
    algo = SimpleNamespace(env_steps=1000, run_id="", evaluation_video=None, save_to_path=lambda path: path.mkdir())
    settings = SimpleNamespace(max_time=None, total_env_steps=5000, steps_per_iteration=1000, keep_checkpoints=2)
    settings.evaluation_interval = 0
    return Training(algo, settings, RunFolder(folder), **more)


def test_resuming_twice_writes_a_row_once(tmp_path):
    for _ in range(2):
        training(tmp_path, unwritten=ROW)._begin_log().close()
        assert steps(tmp_path) == [1000]


def test_a_row_is_unwritten_only_if_its_own_files_cannot_be_written(tmp_path, monkeypatch):
    made = training(tmp_path)
    log = made._begin_log()
    monkeypatch.setattr(made._episodes, "write", full_disk)
    with pytest.raises(UsageError, match="No space left.*what was learned so far is kept in"):
        made._write(log, ROW)
    log.close()
    assert steps(tmp_path) == [1000] and read_unwritten(tmp_path / "checkpoint_00001000") is None


# -- environments that break or hang ----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("trainer", "env"), [("SAC", "Explodes-v0"), ("DQN", "ExplodesDiscrete-v0")])
def test_training_that_diverges_never_saves_it_and_names_the_last_finite_checkpoint(
    trainer, env, envs, tmp_path, capsys
):
    flags = ["--trainer", trainer, "--env", f"special_envs:{env}", "--total_env_steps", 600, "--quiet"]
    assert custom_training.main(new(tmp_path / "results", *flags)) == 1
    run = the_run(tmp_path / "results")
    last = run / "checkpoint_00000100"
    err = capsys.readouterr().err
    one_line(err, "training diverged: ", "loss is ", f"the last finite checkpoint is {last}; ", f"{run / 'error.txt'}")
    assert checkpoints(run) == [last.name] and steps(run) == [100]
    networks = state_files.load(last / POLICY)
    assert all(np.isfinite(values).all() for part in networks.values() for values in part.values())


@pytest.mark.parametrize(
    ("error", "raised", "line"),
    [
        (PartError("the event returned nan"), UsageError, "^the event returned nan; .* kept in .*checkpoint_00001000$"),
        (NonFiniteError("rewards", 7, math.nan), UsageError, "^rewards holds nan .* kept in .*checkpoint_00001000$"),
        (EnvironmentFailure("E-v0", "raised OSError"), RunFailure, "raised OSError; .* kept in .*; continue with: it$"),
        (RunnerLost("runner 1 died"), RunFailure, "^runner 1 died; .* kept in .*; continue with: it$"),
    ],
)
def test_errors_of_a_run_are_one_line_and_keep_what_was_learned(error, raised, line, tmp_path):
    with pytest.raises(raised, match=line):
        train.rescue(error, training(tmp_path), "continue with: it")
    assert checkpoints(tmp_path) == ["checkpoint_00001000"]
    assert (tmp_path / "error.txt").exists() == (raised is RunFailure)


def test_a_checkpoint_to_keep_at_the_step_of_an_error_is_kept(tmp_path):
    run = training(tmp_path)
    run._kept_at = [1000]
    assert run.rescue().endswith("/checkpoint_00001000")
    assert checkpoints(tmp_path) == ["checkpoint_00001000"] and (tmp_path / "kept_checkpoint_00001000").is_dir()


def test_each_warning_of_gymnasium_is_shown_once(envs, tmp_path, capsys):
    flags = ["--env", "special_envs:Outside-v0", "--evaluation_interval", 1, "--total_env_steps", 50, "--quiet"]
    assert custom_training.main(new(tmp_path / "results", *flags)) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"warning of Gymnasium: The obs returned by the `{method}()` method is not within the observation space."
        for method in ("reset", "step")
    ]


@pytest.mark.parametrize("supported", [False, True])
def test_emulated_bfloat16_is_warned_of(supported, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: supported)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    flags = ["--env", "Pendulum-v1", "--matrix_dtype", "bfloat16", "--total_env_steps", 50, "--quiet"]
    assert custom_training.main(new(tmp_path / "results", *flags)) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == (not supported)
    assert all("bfloat16, which this processor does not support; expect float32 to be faster" in line for line in lines)


def test_a_bug_keeps_its_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr(Training, "_round", lambda self, steps: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        custom_training.main(new(tmp_path, "--env", "Pendulum-v1", "--total_env_steps", 200, "--quiet"))
    assert "ZeroDivisionError" in (the_run(tmp_path) / "error.txt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("fails_at", [200, 250])
def test_a_resumed_run_repeats_an_evaluation_that_failed(tmp_path, capsys, monkeypatch, fails_at):
    """The result of its iteration is written as in an uninterrupted run; 250 env steps are the end of the run."""
    evaluate = TrainingLoop._run_one_evaluation

    def failing(self, parallel_train_future):
        if self.env_steps == fails_at:
            raise EnvironmentFailure("Pendulum-v1", "raised RuntimeError: the motor burnt out")
        return evaluate(self, parallel_train_future)

    flags = ["--env", "Pendulum-v1", "--total_env_steps", 250, "--quiet"]
    evaluations = ["--evaluation_interval", 1, "--evaluation_num_episodes", 1]
    words = [*new(tmp_path / "whole", *flags), *map(str, evaluations)]
    assert custom_training.main(words) == 0
    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "_run_one_evaluation", failing)
        assert custom_training.main([*words, "--local_dir", str(tmp_path / "failed")]) == 1
    run = the_run(tmp_path / "failed")
    one_line(capsys.readouterr().err, "the motor burnt out", f"kept in {run / f'checkpoint_{fails_at:08}'}")
    assert steps(run) == [step for step in (100, 200, 250) if step < fails_at]
    assert custom_training.main(["--resume", str(run), "--quiet"]) == 0
    assert steps(run) == [100, 200, 250]
    for expected, found in zip(rows(the_run(tmp_path / "whole")), rows(run), strict=True):
        assert results_of(found) == results_of(expected)
    rejects(capsys, custom_training.main, ["--resume", str(run), "--quiet"], "the run is complete at 250 steps")


def results_of(row: dict[str, str]) -> dict[str, str]:
    """Return the figures of a row that a repetition of the run reproduces."""
    return {name: row[name] for name in row if name.startswith("learners/") or name.endswith(("return_mean", "steps"))}


@pytest.mark.slow
def test_an_environment_that_hangs_ends_the_run_and_its_place_is_reported(envs, tmp_path):
    flags = ["--env", "special_envs:Hang-v0", "--total_env_steps", 300, "--hang_timeout", 10]
    process = start(*new(tmp_path / "results", *flags))
    _, err = process.communicate(timeout=PATIENCE)
    run = the_run(tmp_path / "results")
    assert process.returncode == 1
    one_line(err, "custom_training.py: error: hung: no progress for 10 s", f"--resume {run}")
    assert "special_envs.py" in (run / "hung.txt").read_text()
    assert checkpoints(run) == ["checkpoint_00000100"] and steps(run) == [100]


def test_evaluation_steps_count_as_progress(tmp_path):
    config = SACConfig().environment("Pendulum-v1").training(hiddens=(8, 8), steps_per_iteration=20)
    algo = config.evaluation(evaluation_interval=1).build_algo()
    settings = SimpleNamespace(total_env_steps=100, steps_per_iteration=20, max_time=None, evaluation_interval=1)
    run = Training(algo, settings, RunFolder(tmp_path))
    beats = [run.pulse()]
    algo.eval_env_runner.sample(num_timesteps=5, explore=False)
    beats.append(run.pulse())
    algo.env_runner.collect(5, random_actions=True)
    beats.append(run.pulse())
    assert len(set(beats)) == 3
    algo.stop()


def test_a_folder_is_locked_or_the_reason_is_reported(tmp_path, monkeypatch):
    (tmp_path / "lock.txt").touch()
    (tmp_path / disk.LOCK).symlink_to(tmp_path / "lock.txt")
    with pytest.raises(OSError, match="symbolic link"), hold(tmp_path, "a run"):
        raise AssertionError("a link to another file locks nothing")
    (tmp_path / disk.LOCK).unlink()

    def unsupported(lock):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(disk.FileLock, "acquire", unsupported)
    with hold(tmp_path, "a run"):  # a file system without locks
        pass
