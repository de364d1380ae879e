import gzip
import json

import pytest
from run_folders import ours, row, settings, stock, study, write

from interreplay.analysis import read_runs
from interreplay.errors import UsageError


def only(top):
    (run,) = read_runs([top])
    return run


def test_states_of_runs(tmp_path):
    found = {}
    for run in read_runs([study(tmp_path)]):
        found.setdefault(run.state, []).append(run)
    assert {state: len(runs) for state, runs in found.items()} == {
        "finished": 12, "unfinished": 1, "crashed": 1, "empty": 2
    }  # fmt: skip
    assert "2,000 of 4,000 steps" in found["unfinished"][0].note
    assert "ValueError: actions are NaN" in found["crashed"][0].note
    assert {(run.env, run.method) for run in found["empty"]} == {("Hopper-v5", "PER"), ("Reacher-v5", "PER")}


def test_columns_of_results(tmp_path):
    ours(tmp_path / "new", "Hopper-v5", "NMER", 0, [1.0, 2.0])
    run = only(tmp_path / "new")
    assert run.results["env_steps"].tolist() == [1000, 2000]
    assert run.results["evaluation"].tolist() == [1, 2] and run.results["training"].tolist() == [-4, -3]
    assert run.results["replay_buffer/td_error_mean"].tolist() == [1, 0.5]


def test_trials_that_tune_marked_as_done_are_finished(tmp_path):
    stock(tmp_path, "Hopper-v5", 0, [1.0, 2.0])
    assert (only(tmp_path).state, only(tmp_path).method) == ("finished", "RLlib prioritized")
    assert not only(tmp_path).has("evaluation") and only(tmp_path).has("training")


def test_compressed_results(tmp_path):
    folder = ours(tmp_path, "Hopper-v5", "NMER", 0, [1.0, 2.0])
    text = (folder / "result.json").read_text()
    (folder / "result.json").unlink()
    (folder / "result.json.gz").write_bytes(gzip.compress(text.encode()))
    assert only(tmp_path).results["evaluation"].tolist() == [1, 2]


def test_a_truncated_line_is_skipped_with_a_note(tmp_path):
    folder = ours(tmp_path, "Hopper-v5", "NMER", 0, [1.0, 2.0])
    with (folder / "result.json").open("a") as file:
        file.write('{"num_env_steps_sam')
    assert len(only(tmp_path).results) == 2 and "unreadable lines: 1" in only(tmp_path).note


def test_repeated_steps_keep_the_last_results(tmp_path):
    rows = [row(1000, 0, 1), row(2000, 0, 2), row(3000, 0, 3), row(2000, 0, 20), row(3000, 0, 30)]
    write(tmp_path / "a", rows, settings("Hopper-v5", "NMER", 0, 3000))
    assert only(tmp_path).results["evaluation"].tolist() == [1, 20, 30]


def test_a_run_resumed_after_an_error_is_not_crashed(tmp_path):
    folder = ours(tmp_path, "Hopper-v5", "NMER", 0, [1.0, 2.0], error="Traceback\nOSError: disk\n")
    assert only(tmp_path).state == "finished" and "resumed after an error" in only(tmp_path).note
    params = json.loads((folder / "params.json").read_text()) | {"total_env_steps": 9000}
    (folder / "params.json").write_text(json.dumps(params))
    assert only(tmp_path).state == "crashed"


def test_status_files_determine_the_state(tmp_path):
    folder = ours(tmp_path, "Hopper-v5", "NMER", 0, [1.0], total=5000)
    for status, state, note in [
        ({"state": "failed", "failures": ["it: ValueError: NaN", "again: OSError"]}, "crashed", "again: OSError"),
        ({"state": "failed", "failures": []}, "crashed", "unknown error"),
        ({"state": "stopped early"}, "unfinished", "by the study's scheduler"),
        ({"state": "running"}, "unfinished", "running or stopped"),
    ]:
        (folder / "status.json").write_text(json.dumps(status))
        assert only(tmp_path).state == state and note in only(tmp_path).note
    (folder / "result.json").write_text("")
    (folder / "status.json").write_text(json.dumps({"state": "failed", "failures": ["hung"]}))
    assert (only(tmp_path).state, only(tmp_path).note) == ("crashed", "before its first result: hung")


def test_a_study_names_its_runs_and_lists_those_without_a_folder(tmp_path):
    folder = ours(tmp_path, "Hopper-v5", "LCER", 0, [1.0], buffer_args={"variant": "member"})
    folder = folder.rename(tmp_path / "SAC_Hopper-v5_LCER-RM_s0")
    planned = {"trainer": "SAC", "env": "Hopper-v5", "label": "LCER-RM", "flags": {}}
    runs = [planned | {"name": folder.name, "seed": 0}, planned | {"name": "SAC_Hopper-v5_LCER-RM_s1", "seed": 1}]
    (tmp_path / "study.yaml").write_text(json.dumps({"runs": runs}))
    found = {run.description.seed: (run.method, run.state, run.note) for run in read_runs([tmp_path])}
    assert found == {0: ("LCER-RM", "finished", ""), 1: ("LCER-RM", "empty", "no result yet")}
    (tmp_path / "study.yaml").write_text("runs: 3")
    damaged, run = read_runs([tmp_path])
    assert (damaged.path, damaged.state) == (tmp_path, "unreadable") and "study.yaml is damaged" in damaged.note
    assert (run.path, run.state) == (folder, "finished")


def test_studies_that_use_a_label_for_different_methods_are_compared(tmp_path):
    """Their runs are neither averaged together nor repeats of each other."""
    for buffer in ("NMER", "PER"):
        folder = ours(tmp_path / buffer, "Hopper-v5", buffer, 0, [1.0])
        folder = folder.rename(folder.with_name("SAC_Hopper-v5_ours_s0"))
        planned = {"name": folder.name, "trainer": "SAC", "env": "Hopper-v5", "label": "ours", "seed": 0, "flags": {}}
        (tmp_path / buffer / "study.yaml").write_text(json.dumps({"runs": [planned]}))
    found = [(run.method, run.repeats) for run in read_runs([tmp_path])]
    assert found == [("ours, buffer=NMER", False), ("ours, buffer=PER", False)]


def test_of_equal_runs_the_longest_counts(tmp_path):
    ours(tmp_path / "a", "Hopper-v5", "NMER", 0, [1.0], total=2000)
    ours(tmp_path / "b", "Hopper-v5", "NMER", 0, [1.0, 2.0])
    first, second = read_runs([tmp_path])
    assert first.repeats and not second.repeats and "same settings" in first.note


def test_a_run_that_continues_in_another_folder_begins_with_its_earlier_results(tmp_path):
    ours(tmp_path / "a", "Hopper-v5", "NMER", 0, [1.0, 2.0], run_id="x")
    params = settings("Hopper-v5", "NMER", 0, 3000, run_id="x")
    write(tmp_path / "b" / "later", [row(2000.0, 0.0, 2.5), row(3000.0, 0.0, 3.0)], params)
    first, second = read_runs([tmp_path])
    assert first.repeats and first.note == "continued in later" and not second.repeats
    assert second.results[["env_steps", "evaluation"]].to_numpy().tolist() == [[1000, 1], [2000, 2.5], [3000, 3]]


def test_runs_of_tune_that_differ_in_a_setting_are_no_repeats(tmp_path):
    """Also if a third run lacks the setting, so that names do not contain it."""
    for number, more in enumerate(
        [{"clip_param": 0.1}, {"clip_param": 0.3}, {"clip_param": 0.3, "log_level": "INFO"}, {}]
    ):
        params = {"env": "Pendulum-v1", "seed": 0, "gamma": 0.99} | more
        write(tmp_path / f"PPO_{number}", [row(1000.0, 1.0) | {"done": True}], params)
    assert [run.repeats for run in read_runs([tmp_path])] == [False, False, True, False]


def test_runs_are_read_once_and_checkpoints_are_not_runs(tmp_path):
    folder = ours(tmp_path, "Hopper-v5", "NMER", 0, [1.0])
    (folder / "checkpoint_00001000").mkdir()
    (folder / "checkpoint_00001000" / "params.json").write_text("{}")
    (folder / "best_checkpoint_00001000" / "empty").mkdir(parents=True)
    assert len(read_runs([tmp_path, folder])) == 1


def test_symbolic_links_are_followed_once(tmp_path):
    folder = ours(tmp_path / "elsewhere", "Hopper-v5", "NMER", 0, [1.0])
    other = ours(tmp_path / "more" / "deep", "Hopper-v5", "NMER", 1, [1.0])
    links = tmp_path / "links"
    links.mkdir()
    (links / "run").symlink_to(folder)
    (links / "again").symlink_to(folder)
    (links / "more").symlink_to(tmp_path / "more")
    (links / "circle").symlink_to(links)
    (other.parent / "up").symlink_to(tmp_path / "more")
    (links / "broken").symlink_to(tmp_path / "nowhere")
    assert [run.path for run in read_runs([links])] == [folder, other]
    assert [run.path for run in read_runs([links / "run"])] == [folder]


def test_missing_runs_and_folders_are_rejected(tmp_path):
    with pytest.raises(UsageError, match="no runs in .*result.json"):
        read_runs([tmp_path])
    with pytest.raises(UsageError, match="nothing is not a folder"):
        read_runs([tmp_path / "nothing"])
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file is not a folder"):
        read_runs([tmp_path / "file"])


def test_forks_of_different_checkpoints_are_no_repeats(tmp_path):
    for parent in ("a", "a", "b"):
        more = {"fork_from": f"{parent}/checkpoint_00001000"}
        ours(tmp_path / str(len(list(tmp_path.iterdir()))), "Hopper-v5", "NMER", 0, [1.0], **more)
    assert [run.repeats for run in read_runs([tmp_path])] == [False, True, False]
