"""The command ``interreplay fork`` without training: its settings, its report and its last line."""

import json

import pytest
from run_folders import row

from interreplay.errors import UsageError
from interreplay.experiments.commands import fork, study
from interreplay.experiments.flags.training_flags import resolve_settings
from interreplay.experiments.studies.study import State, TrialFolder
from interreplay.rllib.algorithms.loop import LOOP_STATE
from interreplay.runs import state_files
from interreplay.runs.state_files import manifest

RELABELED = {"type": "interreplay.environments.relabeled:Relabeled", "function": "studies.rewards:turning"}


@pytest.fixture
def parent(tmp_path):
    """A run of 100,000 steps with a checkpoint."""
    checkpoint = tmp_path / "parent" / "checkpoint_00100000"
    checkpoint.mkdir(parents=True)
    manifest.add(checkpoint, "settings.json", json.dumps(vars(resolve_settings({"env": "Pendulum-v1"}))))
    return tmp_path / "parent"


def test_unfinished_runs_are_left_out_and_the_first_arm_stays_the_baseline(parent, tmp_path, monkeypatch, capsys):
    begun = {}
    left = {0}

    def run_with_tune(study, folder, address, jobs, reporter):
        begun.update(reporter._steps)
        for run in study.runs:
            trial = folder.trial(run)
            unfinished = run.label == "Uniform" and run.seed in left
            trial.note(state=State.INTERRUPTED if unfinished else State.FINISHED)
            values = [-900.0] if unfinished else [float(run.seed), 10.0 * (run.label == "PER")]
            lines = [row(100_000.0 + 500 * (i + 1), 0.0, value) for i, value in enumerate(values)]
            (trial.path / "result.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return 75

    monkeypatch.setattr(study, "run_with_tune", run_with_tune)
    monkeypatch.setattr(fork, "draw", lambda *arguments: False)
    monkeypatch.setattr("sys.argv", ["interreplay fork"])
    words = ["--arms", "Uniform,PER", "--seeds", "2", "--steps", "1000", "--output_dir", str(tmp_path / "fork")]
    assert fork.main([str(parent), *words]) == 75
    out = capsys.readouterr().out
    assert "1 of 4 runs are left; continue with: the same command" in out
    assert set(begun.values()) == {100_000}, "the time left is at the rate after the fork"
    table = out.partition("\narm ")[2]
    assert "mean - Uniform" in table and "-900" not in table
    assert "without 1 of 4 runs, which have not finished" in table
    left.add(1)
    assert fork.main([str(parent), *words]) == 75
    out = capsys.readouterr().out
    assert "no run of Uniform, the arm to compare with, has finished" in out and "mean - " not in out


def test_renamed_checkpoints_keep_their_steps_and_those_set_aside_are_not_chosen(parent):
    (parent / "checkpoint_00100000").rename(parent / "kept_checkpoint_00100000.set_aside")
    with pytest.raises(UsageError, match=r"RUN .* holds no checkpoint_\* folder; give the folder of a run or of"):
        fork.find_checkpoint(parent, 100_000)
    renamed = fork.find_checkpoint(parent / "kept_checkpoint_00100000.set_aside", None)
    state_files.save(renamed, {"algorithm": {LOOP_STATE: {"env_steps": 100_000}}})
    assert fork.read_steps(renamed) == 100_000


@pytest.mark.parametrize(("relabel", "kept"), [(None, [RELABELED]), ("studies.rewards:turning", None)])
def test_arms_have_the_wrappers_of_the_parent(relabel, kept):
    given = {"env": "Pendulum-v1"}
    given |= {"relabel": relabel} if relabel else {"wrapper": [RELABELED]}
    found = fork.read_inherited_settings(vars(resolve_settings(given)))
    assert (found.get("wrapper"), found.get("relabel")) == (kept, relabel)


def test_a_run_without_env_steps_is_rejected(parent):
    settings = vars(resolve_settings({"env": "Pendulum-v1"})) | {"updates": 1000}
    with pytest.raises(UsageError, match="checkpoint_00001000 has learned from recorded data alone"):
        fork.plan_arms(None, parent / "checkpoint_00001000", settings, 1000)


def test_a_resumed_run_begins_at_its_own_checkpoint(tmp_path):
    settings = {"fork_from": str(tmp_path / "kept_checkpoint_00000050")}
    assert study.get_first_step(TrialFolder(tmp_path), settings) == 50
    (tmp_path / "checkpoint_00000060").mkdir()
    assert study.get_first_step(TrialFolder(tmp_path), settings) == 60
    new = TrialFolder(tmp_path / "new")
    assert study.get_first_step(new, {"fork_from": None}) == 0
    assert study.get_first_step(new, {"fork_from": str(tmp_path)}) == 60, "the newest checkpoint of a run"
