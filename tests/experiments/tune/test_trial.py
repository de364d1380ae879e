"""A run of a study equals a run of custom_training, also after interruptions and failures."""

import functools
import io
import json
import math
import queue
import re
import shutil
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv

import custom_training
from argument_parser import make_parser, resolve_settings
from interreplay.errors import EnvironmentFailure, NonFiniteError, RunnerLost, UsageError, describe_error
from interreplay.experiments.studies.study import Execution, State, TrialFolder
from interreplay.experiments.training import start
from interreplay.experiments.training.train_loop import Training
from interreplay.experiments.tune import run_study, run_together, study_run
from interreplay.experiments.tune.study_run import StudyRun, run_single
from interreplay.runs import state_files
from interreplay.runs.run_folder import RunFolder
from interreplay.runs.state_files.arrays import encode
from interreplay.runs.state_files.disk import hold
from tests.experiments.commands.command_lines import read_csv

LINE = "--env InvertedPendulum-v5 --buffer NMER --kneighbors 3 --total_env_steps 100 --steps_per_iteration 25"
LINE += " --learning_starts 15 --train_batch_size 16 --buffer_size 2000 --hiddens 16,16 --evaluation_num_episodes 1"
LINE += " --checkpoint_freq 1 --seed 5 --evaluation_interval 2"
PARTS = ("env_runners/", "learners/", "evaluation/", "replay_buffer/", "num_env_steps", "training_iteration")
TIMES = ("time_", "_timer", "timers", "duration", "seconds", "throughput")


@pytest.fixture(scope="module", autouse=True)
def _host():
    from interreplay.rllib import ray_session

    ray_session.prepare_host(1, 0)


def settings(*more: str) -> dict:
    return vars(resolve_settings(make_parser().given([*LINE.split(), *more])))


def finish(folder: Path, *more: str) -> list[dict]:
    return list(StudyRun(folder, settings(*more), 60).results())


def begin(folder: Path, iterations: int, *more: str) -> None:
    """Make some iterations of a run, as if its process were killed after them."""
    results = StudyRun(folder, settings(*more), 60).results()
    for _ in range(iterations):
        next(results)
    results.close()


def rows(folder: Path) -> list[dict[str, str]]:
    """Return the rows of progress.csv without columns that measure time."""
    found = read_csv(folder / "progress.csv")
    names = [n for n in found[0] if n.startswith(PARTS) and not any(t in n for t in TIMES)]
    assert len(names) > 20
    return [{name: row[name] for name in names} for row in found]


def weights_and_buffer(folder: Path) -> dict[str, bytes]:
    """Return the arrays of networks, optimizers and the replay buffer in the newest checkpoint."""
    checkpoint = RunFolder(folder).checkpoints()[0]
    learner = state_files.load(checkpoint, "algorithm", "learner_group", "learner")
    arrays: dict[str, np.ndarray] = {}
    encode({name: learner[name] for name in ("rl_module", "optimizer")}, arrays)
    encode({"replay_buffer": state_files.load(checkpoint, "replay_buffer")}, arrays)
    return {name: array.tobytes() for name, array in arrays.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Return the folder of an uninterrupted run of custom_training."""
    parent = tmp_path_factory.mktemp("whole")
    assert custom_training.main([*LINE.split(), "--quiet", "--local_dir", str(parent)]) == 0
    return next(parent.iterdir())


def test_a_trial_stopped_before_its_first_iteration_reports_its_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(run_study, "listen", lambda signals, ask: ask("stop"))
    trial = run_study.Trial({"job": {"folder": str(tmp_path / "run"), "settings": settings()}})
    result = trial.step()
    assert result["done"] and result["state"] == State.INTERRUPTED
    assert result["env_steps"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("request_", "step"), [("stop", 8), ("save", 59), ("stop", 75)])
def test_an_interrupted_run_ends_the_same(request_, step, whole, tmp_path):
    folder = tmp_path / "run"
    run = StudyRun(folder, settings(), 60)
    prepare = run._prepare

    def prepare_request():
        training = prepare()
        training.progress = lambda steps: run.ask(request_) if steps == step else None
        return training

    run._prepare = prepare_request
    results = run.results()
    for _ in results:
        if request_ == "save" and RunFolder(folder).checkpoints() and run.training.algo.env_steps >= step:
            break  # as if it were killed
    results.close()
    if request_ == "stop":
        assert TrialFolder(folder).status()["state"] == State.INTERRUPTED
        assert [RunFolder(folder).checkpoints()[0].name] == [f"checkpoint_{step:08d}"]
    finish(folder)
    assert rows(folder) == rows(whole)
    assert weights_and_buffer(folder) == weights_and_buffer(whole)
    assert TrialFolder(folder).status()["starts"] == 2
    found = read_csv(folder / "progress.csv")
    clocks = [(float(row["time_total_s"]), float(row["time_this_iter_s"])) for row in found]
    for (total, _), (following, lasted) in pairwise(clocks):
        assert following >= (total + lasted) * (1 - 1e-9), "the clock continues"


@pytest.mark.slow
def test_a_process_that_ray_ends_has_not_failed(whole, tmp_path):
    folder = tmp_path / "run"
    results = StudyRun(folder, settings(), 60).results()
    with pytest.raises(SystemExit):
        next(results), next(results)
        results.throw(SystemExit(1))  # SIGTERM raises it in a process of Ray after the end of its study
    left = TrialFolder(folder).status()
    assert left["failures"] == [] and not (folder / "error.txt").exists()
    finish(folder)
    status = TrialFolder(folder).status()
    assert rows(folder) == rows(whole) and status["state"] == State.FINISHED
    assert status["seconds"] > left["seconds"] > 0  # includes the time before it ended


# -- failures ---------------------------------------------------------------------------------------


class Fragile(PendulumEnv):
    """Raises an error at step `at`, or returns a reward of NaN there, `times` times."""

    times, nan, at = 0, False, 38

    def __init__(self):
        super().__init__()
        self.steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps == Fragile.at and Fragile.times:
            Fragile.times -= 1
            raise RuntimeError("the simulator broke")
        obs, reward, *rest = super().step(action)
        return obs, float("nan") if Fragile.nan and self.steps == Fragile.at else reward, *rest


gym.register("Fragile-v0", entry_point=Fragile, max_episode_steps=25)
HOW = Execution(max_failures=2, hang_timeout=60)


def fragile(folder: Path, times: int, nan: bool = False, at: int = 38, **more) -> tuple[int, list[str], dict]:
    Fragile.times, Fragile.nan, Fragile.at = times, nan, at
    output = io.StringIO()
    how = settings("--env", "Fragile-v0", "--buffer_arg", "k=3", "--evaluation_interval", "0") | more
    code = run_single(TrialFolder(folder), how, HOW, output)
    return code, output.getvalue().splitlines(), TrialFolder(folder).status()


@pytest.mark.slow
def test_a_failed_run_is_retried_from_its_checkpoint(tmp_path):
    code, output, status = fragile(tmp_path / "run", times=1)
    assert code == 0 and status["state"] == State.FINISHED and status["starts"] == 2
    broke = "EnvironmentFailure: the environment Fragile-v0 raised RuntimeError: the simulator broke, at env step 38"
    assert status["failures"] == [broke] and status["begun_at"] == 37
    assert any(f"trying again from its last checkpoint: {broke}" in line for line in output)
    rates = [float(rate) for rate in re.findall(r"([\d.]+) steps/s", "\n".join(output))]
    assert len(rates) == 4 and max(rates) < 1e5  # the first one too
    steps = [float(row["num_env_steps_sampled_lifetime"]) for row in rows(tmp_path / "run")]
    assert steps == [25, 50, 75, 100]


def test_a_permanent_error_is_not_retried(tmp_path):
    code, output, status = fragile(tmp_path / "run", times=0, nan=True)
    assert code == 1 and status["state"] == State.FAILED and status["starts"] == 1
    assert output[-1].startswith("failed for good: NonFiniteError: rewards holds nan at env step 38 of Fragile-v0")


@pytest.mark.slow
def test_a_damaged_checkpoint_falls_back_to_the_one_before(whole, tmp_path):
    folder = tmp_path / "run"
    begin(folder, 3)
    (newest, before) = RunFolder(folder).checkpoints()
    (newest / "manifest.json").unlink()
    finish(folder)
    assert TrialFolder(folder).status()["begun_at"] == int(before.name[-8:])
    assert rows(folder) == rows(whole)


@pytest.mark.slow
def test_a_run_resumes_from_a_kept_checkpoint_at_the_end_of_an_iteration(whole, tmp_path):
    folder = tmp_path / "run"
    begin(folder, 2, "--keep_checkpoints_at", "50")
    for checkpoint in RunFolder(folder).checkpoints():
        shutil.rmtree(checkpoint)
    (folder / "kept_checkpoint_00000050").rename(folder / "checkpoint_00000050")
    finish(folder)
    assert rows(folder) == rows(whole)
    assert weights_and_buffer(folder) == weights_and_buffer(whole)


def test_damaged_checkpoints_are_set_aside_when_a_run_starts_from_scratch(tmp_path, monkeypatch):
    def write(path):
        state_files.write_atomically(path, lambda work: (work / "weights").write_text("new"))

    built = []

    def build(*arguments):
        algo = SimpleNamespace(env_steps=0, stopped=0, save_to_path=write)
        algo.stop = lambda: vars(algo).update(stopped=algo.stopped + 1)
        algo.restore_from_path = lambda path: state_files.resolve(Path(path))
        algo.learner = SimpleNamespace(updates=0)
        built.append(algo)
        return algo

    monkeypatch.setattr(start, "build", build)
    how = {"trainer": "SAC", "fork_from": None, "max_time": None, "keep_checkpoints": 2, "wrapper": []}
    how |= {"total_env_steps": 100, "steps_per_iteration": 25, "evaluation_interval": 1}
    run = StudyRun(tmp_path / "run", how, 60)
    run._status = run.folder.status()
    with run._exits:
        for steps in (50, 75):
            run.folder.save(steps, write, {}, keep=2)
        run.folder.save_kept(25, write, {})
        for weights in run.folder.path.glob("*/weights"):
            weights.write_text("damaged")
        training = run._prepare()
        assert len(built) == 2 and training.algo is built[1], "the first one may have parts of a checkpoint"
        assert built[0].stopped and not built[1].stopped
        for training.algo.env_steps in (25, 50, 75):
            assert (training.save() / "weights").read_text() == "new"
            assert run.folder.status()["env_steps"] == training.algo.env_steps, "also if the process is killed later"
        (note,) = run.folder.status()["notes"]
        assert "checkpoint_00000075 is unusable" in note and note.endswith("the run starts from scratch")
    aside = sorted(path.name for path in run.folder.path.glob("*.set_aside"))
    assert aside == [f"{name}.set_aside" for name in (
        "checkpoint_00000050", "checkpoint_00000075", "kept_checkpoint_00000025"
    )]  # fmt: skip


@pytest.mark.slow
def test_a_changed_reward_function_or_dataset_is_a_permanent_failure(tmp_path, monkeypatch, own_cache):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "def same(obs, action, next_obs, reward, **columns):\n    return reward\n"
    (tmp_path / "changed_rewards.py").write_text(text)
    finish(tmp_path / "data")
    words = ("--offline_data", str(tmp_path / "data"), "--relabel", "changed_rewards.py:same")
    for name, change in (
        ("rewards", lambda: (tmp_path / "changed_rewards.py").write_text(text + "# changed\n")),
        ("rows", lambda: shutil.rmtree(tmp_path / "data" / "experience" / "rows_000000000000")),
    ):
        part = words if name == "rewards" else words[:2]
        begin(tmp_path / name, 1, *part)
        change()
        run = StudyRun(tmp_path / name, settings(*part), 60)
        assert list(run.results()) == [] and run.end["state"] == State.FAILED
        expected = {"rewards": "has changed since the run began", "rows": "expected the same data"}
        assert expected[name] in run.end["reason"]


def test_changed_settings_of_learning_are_rejected():
    """A preset of a user can change between two starts of a study."""
    saved = json.loads(json.dumps(settings()))
    study_run.check_unchanged(saved, settings() | {"quiet": True, "torch_compile": True})
    with pytest.raises(UsageError, match=r"begun with gamma 0\.99, not 0\.5; expected the same preset"):
        study_run.check_unchanged(saved, settings("--gamma", "0.5"))
    with pytest.raises(UsageError, match=r"begun with buffer_args \{'k': 3.*, not .*'k': 4"):
        study_run.check_unchanged(saved, settings("--kneighbors", "4"))


def test_invalid_settings_are_a_permanent_failure(tmp_path):
    run = StudyRun(tmp_path / "run", settings() | {"buffer": "HER"}, 60)
    assert list(run.results()) == [] and run.end["state"] == State.FAILED
    assert TrialFolder(tmp_path / "run").status()["state"] == State.FAILED


def full_disk():
    error = UsageError("checkpoint_00000075 cannot be written")
    error.__cause__ = OSError(28, "No space left on device")
    return error


def test_an_error_without_a_message_is_described_by_its_cause():
    """RLlib raises some errors without a message."""
    error = RuntimeError()
    error.__cause__ = ValueError("the\nreason")
    assert describe_error(error) == "RuntimeError: ValueError: the reason"
    assert describe_error(RuntimeError()) == "RuntimeError"


FAILURES = {
    "NonFiniteError: rewards holds nan": (NonFiniteError("rewards", 0, math.nan), State.FAILED, []),
    "UsageError: an invalid setting": (UsageError("an invalid setting"), State.FAILED, []),
    "UsageError: checkpoint_00000075 cannot be written": (full_disk(), State.CRASHED, []),
    "RunnerLost: runner 1 died": (RunnerLost("runner 1 died"), State.CRASHED, ["rescued"]),
    "EnvironmentFailure: the environment": (
        EnvironmentFailure("E-v0", "raised ValueError"),
        State.CRASHED,
        ["rescued"],
    ),
}


def make_trial(folder, monkeypatch, requested="", **training):
    """Return a trial at its 70th step, whose training has these attributes."""
    algo = SimpleNamespace(env_steps=70, learner=SimpleNamespace(updates=0), env_runner=None, eval_env_runner=None)

    def prepare(run):
        run._requested = requested
        run.training = SimpleNamespace(algo=algo, pulse=int, **training)
        return run.training

    monkeypatch.setattr(StudyRun, "_prepare", prepare)
    monkeypatch.setattr(run_study, "listen", lambda signals, ask: None)
    return run_study.Trial({"job": {"folder": str(folder), "settings": settings()}})


@pytest.mark.parametrize("reason", FAILURES)
def test_failures_that_another_attempt_would_repeat_are_permanent(reason, tmp_path, monkeypatch):
    error, state, expected = FAILURES[reason]
    rescued = []

    def iterations():
        raise error
        yield

    rescue = lambda: rescued.append("rescued")
    save_after = functools.partial(Training.save_after, SimpleNamespace(rescue=rescue))
    folder = TrialFolder(tmp_path / "run")
    folder.note(reason="--max_time 1h is over")  # of an earlier start
    trial = make_trial(folder.path, monkeypatch, iterations=iterations, save_after=save_after)
    if state == State.FAILED:
        result = trial.step()
        assert (result["state"], result["env_steps"]) == (State.FAILED, 70) and reason in result["reason"]
    else:
        with pytest.raises(type(error)):
            trial.step()
    status = folder.status()
    assert (status["state"], status["env_steps"], status["reason"]) == (state, 70, "")
    assert status["failures"][0].startswith(reason) and rescued == expected


@pytest.mark.parametrize(
    ("request_", "complete", "state"),
    [("", False, "stopped early"), ("stop", False, State.INTERRUPTED), ("", True, State.FINISHED)],
)
def test_tune_ends_a_run_between_two_iterations(request_, complete, state, tmp_path, monkeypatch):
    attributes = {"complete": complete, "stop_reason": "", "requests": SimpleNamespace(timed_out=False), "stop": int}
    iterations = lambda: iter([{}, {}])
    trial = make_trial(tmp_path / "run", monkeypatch, request_, iterations=iterations, **attributes)
    assert trial.step()["env_steps"] == 70
    with pytest.raises(UsageError, match="another process"), hold(tmp_path / "run", "the run", patience=0.05):
        pass
    for _ in range(2):
        trial.cleanup()
        status = TrialFolder(tmp_path / "run").status()
        assert (status["state"], status["env_steps"]) == (state, 70)
    with hold(tmp_path / "run", "the run"):
        pass


def test_a_run_that_another_process_trains_has_not_failed(tmp_path, monkeypatch):
    folder = TrialFolder(tmp_path / "run")
    folder.note(state=State.RUNNING)
    monkeypatch.setattr(study_run, "hold", functools.partial(hold, patience=0.05))
    monkeypatch.setattr(run_study, "listen", lambda signals, ask: None)
    with hold(folder.path, "the run"):
        with pytest.raises(UsageError, match="another process is using"):
            run_single(folder, settings(), Execution(max_failures=1), io.StringIO())
        trial = run_study.Trial({"job": {"folder": str(folder.path), "settings": settings()}})
        result = trial.step()
        run = StudyRun(folder.path, settings(), 0)
        run.leave = lambda: None
        events = queue.SimpleQueue()
        run_together.execute(run, events, last=True)
    assert result["done"] and result["state"] == "not started" and "another process" in result["reason"]
    assert events.get()[0] == "start" and events.get()[0] == "end"
    assert folder.status()["state"] == State.RUNNING and not folder.status()["failures"]
