"""Reports about trials that record why they fail, and about trials whose processes are lost."""

import io
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest

from interreplay.experiments.process.progress import StudyReporter
from interreplay.experiments.studies.study import CRASHED, TrialFolder, shorten
from interreplay.experiments.tune.run_study import Progress


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
    trial = Trial(
        config={"job": {"folder": str(folder), "settings": {"total_env_steps": 500}}},
        error_file=str(error),
        last_result={},
    )

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
    assert reported.folder.status()["state"] == CRASHED


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
    assert reported.folder.status()["state"] == CRASHED


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
