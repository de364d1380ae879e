"""Studies in Tune: reports about trials that fail or are lost, and what a study changes only while it runs."""

import asyncio
import io
import os
import pickle
import queue
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import tune
from ray.exceptions import OutOfMemoryError

from interreplay.errors import RunFailure, UsageError
from interreplay.experiments.process.progress import StudyReporter
from interreplay.experiments.studies.study import Execution, State, StudyFolder, TrialFolder, shorten
from interreplay.experiments.tune import run_study
from interreplay.experiments.tune.run_study import Progress, StopSignalActor, listen, start_signal_actor


class Trial(SimpleNamespace):
    def __str__(self):
        return "a"


@pytest.fixture
def reported(tmp_path):
    """Return a trial of Tune, its folder, and the reported events."""
    events = []
    error = tmp_path / "error.txt"
    error.write_text("traceback\nThe actor died: worker exit type SYSTEM_ERROR\nmore\n")
    folder = tmp_path / "a"
    folder.mkdir()
    job = {"folder": str(folder), "settings": {"total_env_steps": 500}}
    trial = Trial(config={"job": job}, error_file=str(error), last_result={})

    def on_event(event, name, figures):
        events.append((event, figures.get("reason")))

    progress = Progress(SimpleNamespace(on_event=on_event))
    return SimpleNamespace(progress=progress, trial=trial, folder=TrialFolder(folder), events=events)


def test_each_loss_of_a_process_is_recorded(reported):
    reported.progress.on_trial_start(0, [], reported.trial)
    assert reported.progress.running == {"a"}
    reported.progress.on_trial_recover(0, [], reported.trial)
    assert not reported.progress.running
    reported.trial.error_file = None
    reported.progress.on_trial_recover(0, [], reported.trial)  # lost again before its start
    reported.progress.on_trial_error(0, [], reported.trial)
    first = "its process ended: The actor died: worker exit type SYSTEM_ERROR"
    assert reported.events[1:] == [("retry", first), ("retry", "its process ended:"), ("fail", "its process ended:")]
    assert reported.folder.status()["failures"] == [first, "its process ended:", "its process ended:"]
    assert reported.folder.status()["state"] == State.CRASHED


def test_the_cause_of_a_killed_worker_excludes_guesses(reported):
    line = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
    line += "Worker unexpectedly exits with a connection error code 2. End of file."
    with open(reported.trial.error_file, "w") as file:
        file.write(f"traceback\n{line} Some common causes include: (1) the OOM killer{' or other' * 90}.\n")
    reported.progress.on_trial_start(0, [], reported.trial)
    reported.progress.on_trial_error(0, [], reported.trial)
    assert reported.folder.status()["failures"] == [f"its process ended: {line}"]


def test_a_process_that_ends_before_its_folder_exists_is_recorded_with_the_reason(reported):
    reported.folder.path.rmdir()
    line = "1 worker(s) were killed due to the node running low on memory."
    Path(reported.trial.error_file).write_text(f"Failure # 1\n{line}\nsizes: 1\n")
    reported.progress.on_trial_recover(1, [], reported.trial)
    assert reported.events == [("retry", f"its process ended: {line}")]
    assert reported.folder.status()["state"] == State.CRASHED


def test_the_callback_can_be_pickled_with_a_reporter(tmp_path):
    with (tmp_path / "log").open("w") as stream:
        pickled = pickle.dumps(Progress(StudyReporter({"a": 10}, {}, 0, stream)))
    assert pickle.loads(pickled).running == set()


def test_a_long_failure_keeps_both_ends():
    text = shorten(f"RayTaskError: ray::step() {'frame ' * 200} ValueError: the reason")
    assert len(text) <= 500
    assert text.startswith("RayTaskError: ray::step() frame") and text.endswith("frame ValueError: the reason")
    assert " ... frame" in text
    assert shorten(" a\n b ") == "a b"


def test_a_failure_that_the_process_recorded_is_not_recorded_again(reported):
    reported.folder.note_failure("ValueError: of an earlier start")
    for number in range(2):
        reported.progress.on_trial_start(0, [], reported.trial)
        reported.folder.note_failure(f"ValueError: {number}")
        reported.progress.on_trial_recover(0, [], reported.trial)
    assert [reason for _, reason in reported.events if reason] == ["ValueError: 0", "ValueError: 1"]
    assert len(reported.folder.status()["failures"]) == 3


def test_a_run_that_a_scheduler_stops_has_ended(reported):
    output = io.StringIO()
    progress = Progress(StudyReporter({"a": 1_000, "b": 500}, {}, 0, output))
    reported.trial.last_result = {"env_steps": 300, "state": ""}
    progress.on_trial_complete(0, [], reported.trial)
    assert output.getvalue().startswith("[1/2] a: stopped early at 300 steps, ")
    reported.trial.last_result = {"env_steps": 400, "state": "interrupted"}
    progress.on_trial_complete(0, [], reported.trial)
    assert output.getvalue().splitlines()[1].startswith("[1/2] a: interrupted at 400 steps, ")
    reported.trial.last_result = {"env_steps": 500, "state": ""}
    progress.on_trial_complete(0, [], reported.trial)
    assert "stopped" not in output.getvalue().splitlines()[2], "it is complete"


def test_variables_of_tune_are_set_only_during_a_study(monkeypatch):
    """Otherwise Tune would write no results of later experiments in the same process, or in its children."""
    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "1")
    monkeypatch.delenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", raising=False)
    found = []

    def interrupted() -> None:
        found.append(dict(os.environ))
        raise KeyboardInterrupt

    monkeypatch.setattr(run_study, "start_signal_actor", interrupted)
    unused: Any = None
    before = dict(os.environ)
    with pytest.raises(KeyboardInterrupt):
        run_study.run_trials([], unused, unused, unused)
    assert found[0]["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] == "1" and found[0]["RAY_AIR_NEW_OUTPUT"] == "0"
    assert dict(os.environ) == before


def test_a_study_that_ends_because_memory_is_full_states_how_to_continue(cluster, tmp_path, monkeypatch):
    """Tune does not handle it if Ray ends a run's process during an iteration."""

    def fit(tuner: tune.Tuner) -> None:
        raise RuntimeError("Caught unexpected exception") from OutOfMemoryError("low on memory")

    monkeypatch.setattr(tune.Tuner, "fit", fit)
    monkeypatch.setattr(run_study, "start_signal_actor", lambda: None)
    jobs = [(tmp_path / "run", {"num_workers": 0})]
    with pytest.raises(RunFailure, match="memory was full.*--resume continues them"):
        run_study.run_trials(jobs, Execution(), StudyFolder(tmp_path), SimpleNamespace(beat=int))


def test_the_signal_actor_runs_on_the_driver_s_node(monkeypatch):
    """Otherwise Ray places about half of the actors without CPUs on another node, whose loss would end them."""
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "ab" * 28))
    monkeypatch.setattr(ray, "remote", lambda **options: lambda kind: SimpleNamespace(remote=lambda: options))
    options = start_signal_actor()
    assert options["num_cpus"] == 0
    strategy = options["scheduling_strategy"]
    assert (strategy.node_id, strategy.soft) == ("ab" * 28, False)


def test_a_call_that_waits_for_a_request_ends(monkeypatch):
    """The calls of trials that have ended would fill the actor, and later trials would wait forever."""
    monkeypatch.setattr(run_study, "LONGEST_WAIT", 0.01)

    async def wait():
        signals = StopSignalActor()
        assert await asyncio.wait_for(signals.wait(0), 60) == []
        await signals.broadcast("save")
        assert await signals.wait(0) == ["save"]

    asyncio.run(wait())


def test_a_trial_passes_on_each_request_once(monkeypatch):
    monkeypatch.setattr(ray, "get", lambda answer: answer)
    answers = iter([[], [], ["save"], ["save"], ["save", "stop"]])
    signals = SimpleNamespace(wait=SimpleNamespace(remote=lambda received: next(answers)))
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()
    listen(signals, asked.put)
    assert [asked.get(timeout=60), asked.get(timeout=60)] == ["save", "stop"]


@pytest.fixture
def two_nodes(monkeypatch):
    """Replace a Ray cluster by two nodes of two CPUs, and one that has ended."""
    monkeypatch.setattr(run_study.ray_session, "hide_messages", lambda: None)
    monkeypatch.setattr(ray, "init", lambda **options: signal.signal(signal.SIGTERM, lambda number, frame: None))
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 4.0})
    nodes = [{"Alive": alive, "Resources": {"CPU": 2.0} if alive else {}} for alive in (True, False, True)]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


JOBS = [(Path("run"), {"num_workers": 1})]


@pytest.mark.usefixtures("two_nodes")
def test_joining_a_cluster_keeps_the_handler_of_sigterm():
    """Ray's handler would end the program with exit code 15, after which a job of Slurm is not requeued."""
    own = lambda number, frame: None
    signal.signal(signal.SIGTERM, own)
    notes = []
    assert run_study.start("auto", Execution(), JOBS, notes.append).max_concurrent == 1
    assert signal.getsignal(signal.SIGTERM) is own
    assert notes == ["4 CPUs and 0 GPUs of 2 nodes at auto: 1 run at a time, 2 CPUs each"]


@pytest.mark.usefixtures("two_nodes")
def test_a_run_that_fits_no_node_is_rejected():
    """Its trials would wait forever."""
    with pytest.raises(UsageError, match="takes 3 CPUs and 0 GPUs of one node"):
        run_study.start("auto", Execution(cpus_per_trial=3), JOBS, print)
