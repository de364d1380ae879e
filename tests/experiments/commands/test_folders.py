import json
import os
from types import SimpleNamespace

import pytest
from builders import full_disk

from interreplay.errors import CheckpointError, UsageError
from interreplay.runs import run_folder
from interreplay.runs.checkpoints import BestReturn, find, parse_steps
from interreplay.runs.resume import UNWRITTEN, find_run_folder, first_settings, reopen
from interreplay.runs.run_folder import STEPS, RunFolder, ensure_writable, find_checkpoints, read_settings
from tests.experiments.commands.command_lines import steps as recorded_steps


def write(path):
    path.mkdir()
    (path / "weights").write_text("1")


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path / "deep" / "results", "SAC_module:Env-v0_NMER_s0")


def names(folder):
    return sorted(path.name for path in folder.path.iterdir())


def test_two_runs_of_one_second_get_two_folders(tmp_path):
    paths = {RunFolder.create(tmp_path, "SAC_a/b:Env-v0").path for _ in range(3)}
    assert len(paths) == 3
    assert all(path.parent == tmp_path and path.name.startswith("SAC_a-b-Env-v0_") for path in paths)


def test_the_newest_checkpoints_stay(folder):
    for steps in (1000, 2000, 10_000):
        folder.save(steps, write, {"env": "A"}, keep=2)
    assert names(folder) == ["checkpoint_00002000", "checkpoint_00010000"]
    assert [parse_steps(path) for path in folder.checkpoints()] == [10_000, 2000]
    assert read_settings(folder.checkpoints()[0]) == {"env": "A"}


def test_a_save_that_fails_leaves_the_others_alone(folder):
    folder.save(1000, write, {}, keep=1)

    with pytest.raises(UsageError, match=r"checkpoint_00002000.*No space left.*earlier ones are kept") as caught:
        folder.save(2000, lambda path: write(path) or full_disk(), {}, keep=1)
    assert isinstance(caught.value.__cause__, OSError), "by which studies know that another attempt may succeed"
    assert names(folder) == ["checkpoint_00001000"]


def test_results_reach_the_disk_before_a_checkpoint_does(with_results, monkeypatch):
    synced = []
    monkeypatch.setattr(run_folder, "sync", lambda path: synced.append((path.name, *names(with_results))))
    with_results.save(4000, write, {}, keep=2)
    before = (".saving_checkpoint_00004000", "progress.csv", "result.json")
    after = ("checkpoint_00004000", "progress.csv", "result.json")
    home = with_results.path.name
    assert synced == [("progress.csv", *before), ("result.json", *before), (home, *after)]


def test_a_save_that_was_killed_leaves_nothing_that_counts(folder):
    folder.save(1000, write, {}, keep=2)
    write(folder.path / ".saving_checkpoint_00002000")
    assert [path.name for path in find_checkpoints(folder.path)] == ["checkpoint_00001000"]
    folder.save(2000, write, {}, keep=2)
    assert names(folder) == ["checkpoint_00001000", "checkpoint_00002000"]


@pytest.fixture
def with_results(folder):
    returns = {1000: None, 2000: 5.5, 3000: 9.5, 4000: None}
    lines = [f'{steps},"a, b"' for steps in returns]
    (folder.path / "progress.csv").write_text("\n".join([f"{STEPS},text", *lines, "50"]))
    results = []
    for steps, value in returns.items():
        evaluation = {"env_runners": {"episode_return_mean": value}}
        results.append(json.dumps({STEPS: steps, "evaluation": evaluation}))
    (folder.path / "result.json").write_text("\n".join([*results, '{"half": ']))
    return folder


def test_rewinding_drops_rows_beyond_the_checkpoint_and_half_written_ones(with_results):
    with_results.rewind(3000)
    assert recorded_steps(with_results.path) == [1000, 2000, 3000]
    lines = (with_results.path / "result.json").read_text().splitlines()
    assert [json.loads(line)[STEPS] for line in lines] == [1000, 2000, 3000]
    assert list(with_results.returns(evaluations=True)) == [5.5, 9.5]
    assert names(with_results) == ["progress.csv", "result.json"]


def test_rewinding_leaves_an_empty_table_empty(folder):
    """The first row of such a table adds the header."""
    folder.rewind(0)
    assert names(folder) == [] == list(folder.returns(evaluations=True))
    for text in ("", "\n1000,5.5\n"):  # a full disk leaves an empty table; earlier versions began it with an empty line
        (folder.path / "progress.csv").write_text(text)
        folder.rewind(1000)
        assert (folder.path / "progress.csv").read_text() == ""


def test_damaged_settings_are_passed_over(folder):
    older, newer = (folder.save(steps, write, {"steps": steps}, keep=2) for steps in (1000, 2000))
    (newer / "settings.json").write_text('{"steps": ')
    assert first_settings([newer, older]) == {"steps": 1000}
    (older / "settings.json").unlink()
    with pytest.raises(CheckpointError, match="no usable checkpoint: .*damaged.*; .*cannot be read"):
        first_settings([newer, older])


def ends_at(steps: int, updates: int | None = None) -> SimpleNamespace:
    return SimpleNamespace(total_env_steps=steps, updates=updates)


def test_resuming_from_an_older_checkpoint_keeps_the_newer_one(with_results):
    older, newer = (with_results.save(steps, write, {}, keep=2) for steps in (2000, 4000))
    output = []
    reopened = reopen(with_results.path, older, 2000, ends_at(9000), output.append)
    assert reopened.checkpoints() == [older]
    assert recorded_steps(reopened.path) == [1000, 2000]
    assert (newer.parent / f"{newer.name}.set_aside" / "weights").exists()
    assert len((newer.parent / "progress.csv.set_aside").read_text().splitlines()) == 6, "a header and five rows"
    assert len(output) == 2
    with pytest.raises(UsageError, match="complete at 2,000 steps"):
        reopen(with_results.path, older, 2000, ends_at(2000), output.append)
    with pytest.raises(UsageError, match="complete at 2,000 updates; a larger --updates continues it"):
        reopen(with_results.path, older, 2000, ends_at(2000, updates=2000), output.append)


def test_going_back_on_a_full_disk_changes_nothing(with_results, monkeypatch):
    older, newer = (with_results.save(steps, write, {}, keep=2) for steps in (2000, 4000))

    def contents():
        return {path.name: path.is_file() and path.read_text() for path in with_results.path.iterdir()}

    before = contents()
    monkeypatch.setattr(os, "fsync", full_disk)
    going_back = lambda: reopen(with_results.path, older, 2000, ends_at(9000), print)
    for act in (going_back, lambda: with_results.rewind(2000)):
        with pytest.raises(UsageError, match=r"cannot be rewritten \(No space left on device\); the files are kept"):
            act()
        assert contents() == before
    monkeypatch.undo()
    assert recorded_steps(reopen(with_results.path, older, 2000, ends_at(9000), str).path) == [1000, 2000]
    assert (newer.parent / "progress.csv.set_aside").read_text() == before["progress.csv"]


def test_a_complete_run_is_reopened_only_for_a_row_that_a_full_disk_prevented(with_results):
    settings = {UNWRITTEN: {STEPS: 5000}}
    last = with_results.save(5000, write, settings, keep=2)
    with_results.rewind(4000)
    assert recorded_steps(reopen(with_results.path, last, 5000, ends_at(5000), str).path) == [1000, 2000, 3000, 4000]
    with (with_results.path / "result.json").open("a") as file:
        file.write(json.dumps({STEPS: 5000}) + "\n")
    with pytest.raises(UsageError, match="complete at 5,000 steps"):
        reopen(with_results.path, last, 5000, ends_at(5000), str)


def test_rows_up_to_the_end_of_a_run_are_not_recovered_without_learning_from_them(with_results):
    last = with_results.save(4000, write, {}, keep=2)
    with pytest.raises(UsageError, match="leave it out to repeat the steps after checkpoint_00004000"):
        reopen(with_results.path, last, 5000, ends_at(5000), str)
    assert recorded_steps(reopen(with_results.path, last, 5000, ends_at(6000), str).path)[-1] == 4000


def test_resuming_from_a_checkpoint_that_was_set_aside_keeps_the_older_ones(with_results):
    older, newer = (with_results.save(steps, write, {}, keep=2) for steps in (2000, 4000))
    aside = newer.rename(newer.with_name(f"{newer.name}.set_aside"))
    later = with_results.save(5000, write, {}, keep=2)
    output = []
    reopened = reopen(with_results.path, aside, 4000, ends_at(9000), output.append)
    assert reopened.checkpoints() == [older]
    assert output[0] == f"a checkpoint newer than {newer.name}.set_aside is kept as {later.name}.set_aside"


def test_the_newest_checkpoint_may_be_the_best_one(folder):
    before = folder.save(2000, write, {}, keep=2)
    best = folder.save_best(4000, write, {}, BestReturn(True, 1.0))
    kept = folder.save_kept(3000, write, {})
    assert find_checkpoints(folder.path) == [best, kept, before] and find_checkpoints(kept) == [kept]
    copy = before.rename(before.with_name("under_another_name"))
    assert find_checkpoints(copy) == [copy]


def test_the_step_at_which_a_run_resumes(with_results, tmp_path):
    (with_results.path / "params.json").write_text("{}")
    path = with_results.save(1000, write, {}, keep=2)
    assert find_run_folder(path, None) == with_results.path
    assert find_run_folder(path, with_results.path.parent) == with_results.path
    assert find_run_folder(path, tmp_path / "elsewhere") is None
    alone = tmp_path / "checkpoint_00000001"
    alone.mkdir()
    assert find_run_folder(alone, None) is None


def test_folders_that_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="--output_dir .*file.* cannot be written to"):
        ensure_writable(file / "results")
    with pytest.raises(UsageError, match="cannot be written to"):
        RunFolder.create(file / "results", "SAC")
    ensure_writable(tmp_path / "new" / "results")
    assert (tmp_path / "new" / "results").is_dir()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folders_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        ensure_writable(tmp_path)


def test_checkpoints_of_a_copied_run_are_ordered_by_their_numbers(tmp_path):
    written = {"old/checkpoint_00000900": 5, "run/checkpoint_00000300": 6, "run/checkpoint_00000100": 7}
    written["run/checkpoint_100000000"] = 4
    for name, seconds in written.items():
        file = tmp_path / name / "checkpoint.json"
        file.parent.mkdir(parents=True)
        file.touch()
        os.utime(file, (seconds, seconds))
    found = [f"{path.parent.name}/{path.name}" for path in find(tmp_path)]
    numbers = ("100000000", "00000300", "00000100")
    assert found == [*(f"run/checkpoint_{number}" for number in numbers), "old/checkpoint_00000900"]
