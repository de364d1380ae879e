"""Finished runs of a study are kept in a repository, and restored so that the study resumes."""

import json

import pytest

from benchmarks import keep_study
from benchmarks.studies import restore_study
from interreplay.experiments.studies.study import State, TrialFolder

SETTINGS = {"seed": 3, "network": {"actor": {"second": "ReLU", "first": "Linear"}}}
LINES = [{"env_runners": {"episode_return_mean": -3.0}, "hostname": "here"}, {"training_iteration": 2, "pid": 7}]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A kept study with a finished and an unfinished run."""
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results"
    for name, state in (("over", State.FINISHED), ("half", State.RUNNING)):
        run = results / name
        run.mkdir(parents=True)
        TrialFolder(run).note(state=state, env_steps=20)
        paths = {"output_dir": str(results), "offline_data": str(results / "old")}
        (run / "params.json").write_text(json.dumps(SETTINGS | paths))
        (run / "result.json").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    (results / "study.yaml").write_text(f"seeds: 2\nsettings: {{offline_data: {results}/old}}\n")
    keep_study.main([str(results), str(tmp_path / "kept")])
    return tmp_path / "kept"


def test_finished_runs_are_restored_without_names_of_the_machine(kept, tmp_path, capsys):
    restore_study.main([str(kept), str(tmp_path / "back")])
    assert "1 of 1 runs restored" in capsys.readouterr().out
    run = tmp_path / "back" / "over"
    assert TrialFolder(run).status()["state"] == State.FINISHED
    settings = json.loads((run / "params.json").read_text())
    assert settings == SETTINGS | {"output_dir": "results", "offline_data": "results/old"}
    assert list(settings["network"]["actor"]) == ["second", "first"], "layers keep their order"
    results = [json.loads(line) for line in (run / "result.json").read_text().splitlines()]
    assert results == [{"env_runners": {"episode_return_mean": -3.0}}, {"training_iteration": 2}]
    assert not (kept / "half").exists(), "it is not finished"
    assert (tmp_path / "back" / "study.yaml").read_text() == "seeds: 2\nsettings: {offline_data: results/old}\n"


def test_existing_runs_are_not_replaced(kept, tmp_path):
    run = tmp_path / "back" / "over"
    run.mkdir(parents=True)
    (run / "result.json").write_text("mine")
    restore_study.main([str(kept), str(tmp_path / "back")])
    assert (run / "result.json").read_text() == "mine"
