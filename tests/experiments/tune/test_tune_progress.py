"""What is told of trials whose processes say why they fail, and of those that are lost."""

import pickle
from types import SimpleNamespace

import pytest

from interreplay.experiments.studies.progress import StudyReporter
from interreplay.experiments.studies.trial_folder import CRASHED, TrialFolder, shortened
from interreplay.experiments.tune import callbacks
from interreplay.experiments.tune.callbacks import Progress


class Trial(SimpleNamespace):
    def __str__(self):
        return "a"


@pytest.fixture
def told(tmp_path, monkeypatch):
    """A trial of which Tune tells, what was told on, and how long it was waited before the next try."""
    paused, events = [], []
    monkeypatch.setattr(callbacks.time, "sleep", paused.append)
    error = tmp_path / "error.txt"
    error.write_text("traceback\nThe actor died: worker exit type SYSTEM_ERROR\nmore\n")
    folder = tmp_path / "a"
    folder.mkdir()
    trial = Trial(config={"job": {"folder": str(folder)}}, error_file=str(error), last_result={})
    progress = Progress(lambda event, name, figures: events.append((event, figures.get("reason"))))
    return SimpleNamespace(progress=progress, trial=trial, folder=TrialFolder(folder), events=events, paused=paused)


def test_every_loss_of_a_process_is_noted_and_waited_for(told):
    told.progress.on_trial_start(0, [], told.trial)
    assert told.progress.running == {"a"}
    told.progress.on_trial_recover(0, [], told.trial)
    assert not told.progress.running
    told.trial.error_file = None
    told.progress.on_trial_recover(0, [], told.trial)  # lost again, before it had begun
    told.progress.on_trial_error(0, [], told.trial)
    first = "its process ended: The actor died: worker exit type SYSTEM_ERROR"
    assert told.events[1:] == [("retry", first), ("retry", "its process ended:"), ("fail", "its process ended:")]
    assert told.folder.status()["failures"] == [first, "its process ended:", "its process ended:"]
    assert told.folder.status()["state"] == CRASHED
    assert told.paused == [callbacks.LOST_PAUSE] * 2


def test_a_killed_worker_is_told_of_without_guesses_and_from_the_beginning(told):
    line = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
    line += "Worker unexpectedly exits with a connection error code 2. End of file."
    with open(told.trial.error_file, "w") as file:
        file.write(f"traceback\n{line} Some common causes include: (1) the OOM killer{' or other' * 90}.\n")
    told.progress.on_trial_start(0, [], told.trial)
    told.progress.on_trial_error(0, [], told.trial)
    assert told.folder.status()["failures"] == [f"its process ended: {line}"]


def test_tune_may_pickle_it_although_it_writes_to_a_stream(tmp_path):
    with (tmp_path / "log").open("w") as stream:
        pickled = pickle.dumps(Progress(StudyReporter({"a": 10}, 0, stream).tell))
    assert pickle.loads(pickled).running == set()


def test_a_long_failure_keeps_both_ends():
    text = shortened(f"RayTaskError: ray::step() {'frame ' * 200} ValueError: the reason")
    assert len(text) <= 500
    assert text.startswith("RayTaskError: ray::step() frame") and text.endswith("frame ValueError: the reason")
    assert " ... frame" in text
    assert shortened(" a\n b ") == "a b"


def test_what_the_process_said_itself_is_not_noted_twice_and_tried_at_once(told):
    told.folder.note_failure("ValueError: of an earlier start")
    for number in range(2):
        told.progress.on_trial_start(0, [], told.trial)
        told.folder.note_failure(f"ValueError: {number}")
        told.progress.on_trial_recover(0, [], told.trial)
    assert [reason for _, reason in told.events if reason] == ["ValueError: 0", "ValueError: 1"]
    assert len(told.folder.status()["failures"]) == 3
    assert told.paused == [0, 0]
