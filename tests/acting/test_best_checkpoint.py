"""The best checkpoint of a run is kept, evaluated, loaded and resumed."""

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import custom_training
import interreplay
from interreplay.errors import UsageError
from interreplay.experiments.commands import evaluate
from interreplay.experiments.flags.training_flags import make_parser, resolve_settings
from interreplay.experiments.studies.study import TrialFolder
from interreplay.experiments.training import train_loop
from interreplay.experiments.tune.study_run import StudyRun
from interreplay.runs.checkpoints import BestReturn, best_checkpoints, find_best, find_return, read_best
from interreplay.runs.run_folder import RunFolder

pytestmark = pytest.mark.usefixtures("cluster")

LINE = "--env Pendulum-v1 --preset none --total_env_steps 600 --steps_per_iteration 100 --learning_starts 60"
LINE += " --train_batch_size 16 --hiddens 8,8 --buffer_size 1000 --checkpoint_freq 2 --keep_checkpoints 1 --quiet"
LINE += " --evaluation_num_episodes 1 --horizon 50"
SCORES = {100: -500.0, 200: -300.0, 300: -100.0, 400: -200.0, 500: -100.0, 600: -400.0}


def train(folder, *more):
    assert custom_training.main([*LINE.split(), "--local_dir", str(folder), *more]) == 0
    (run,) = folder.glob("SAC_*")
    return run


@pytest.fixture
def scored(monkeypatch):
    """Replace the returns of evaluations by `SCORES`."""

    def found(result, evaluations):
        assert evaluations
        return BestReturn(True, SCORES[result["env_steps"]])

    monkeypatch.setattr(train_loop, "find_return", found)


@pytest.fixture(scope="module")
def of_scores(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        best = lambda result, evaluations: BestReturn(True, SCORES[result["env_steps"]])
        patched.setattr(train_loop, "find_return", best)
        return train(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def run(of_scores, tmp_path):
    return Path(shutil.copytree(of_scores, tmp_path / "runs" / of_scores.name))


def names(run):
    return sorted(path.name for path in run.iterdir() if "checkpoint" in path.name)


@pytest.mark.slow
def test_the_best_checkpoint_is_kept_next_to_the_newest(run, capsys):
    assert names(run) == ["best_checkpoint_00000300", "checkpoint_00000600"]
    best = run / "best_checkpoint_00000300"
    assert json.loads((best / "best.json").read_text()) == {"evaluated": True, "value": -100.0, "env_steps": 300}
    assert RunFolder(run).best() == BestReturn(True, -100.0) and find_best(run) == best.absolute()
    assert json.loads((best / "settings.json").read_text())["keep_best"] is True
    policy = interreplay.load_policy(run, best=True)
    assert policy.about["checkpoint"] == str(best)
    assert not np.array_equal(policy.act(np.zeros(3)), interreplay.load_policy(run).act(np.zeros(3)))
    assert evaluate.main([str(run), "--best", "--episodes", "1", "--seed", "0"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == f"{best}, evaluation return -100.0" and last.startswith("1 episode: return")


@pytest.mark.slow
def test_a_run_resumes_from_its_best_checkpoint(run, scored, capsys):
    straight = {row["num_env_steps_sampled_lifetime"]: row for row in csv.DictReader((run / "progress.csv").open())}
    words = ["--resume", str(run), "--best", "--total_env_steps", "700", "--quiet"]
    SCORES[700] = -50.0
    assert custom_training.main(words) == 0
    output = capsys.readouterr().out
    assert "resuming from best_checkpoint_00000300" in output
    assert "a checkpoint newer than best_checkpoint_00000300 is kept as checkpoint_00000600.set_aside" in output
    assert "newest checkpoint checkpoint_00000700, best best_checkpoint_00000700" in output
    rows = [*csv.DictReader((run / "progress.csv").open())]
    assert [int(float(row["num_env_steps_sampled_lifetime"])) for row in rows] == [100, 200, 300, 400, 500, 600, 700]
    name = "evaluation/env_runners/episode_return_mean"
    assert [row[name] for row in rows[:6]] == [
        straight[row["num_env_steps_sampled_lifetime"]][name] for row in rows[:6]
    ]


@pytest.mark.slow
def test_a_best_checkpoint_after_the_resumed_one_is_set_aside(run, scored):
    aside = RunFolder(run).set_aside_after(200)
    assert [path.name for path in aside] == ["checkpoint_00000600.set_aside", "best_checkpoint_00000300.set_aside"]
    assert RunFolder(run).best() is None and best_checkpoints(run) == []


@pytest.mark.slow
def test_training_returns_count_without_evaluations(tmp_path):
    run = train(tmp_path, "--evaluation_interval", "0", "--total_env_steps", "300")
    (best,) = best_checkpoints(run)
    rows = [*csv.DictReader((run / "progress.csv").open())]
    returns = {int(float(r["env_steps"])): float(r["env_runners/episode_return_mean"] or "nan") for r in rows}
    known = {steps: value for steps, value in returns.items() if value == value}
    assert known and read_best(best) == BestReturn(False, pytest.approx(max(known.values())))
    assert best.name == f"best_checkpoint_{max(known, key=known.get):08d}"


@pytest.mark.slow
def test_no_best_checkpoint_with_keep_best_false(tmp_path, capsys):
    run = train(tmp_path, "--keep_best", "False", "--total_env_steps", "200")
    assert names(run) == ["checkpoint_00000200"] and ", best" not in capsys.readouterr().out.splitlines()[-1]
    for act in (lambda: interreplay.load_policy(run, best=True), lambda: find_best(run)):
        with pytest.raises(UsageError, match="holds no best checkpoint; runs with --keep_best have one"):
            act()
    assert evaluate.main([str(run), "--best"]) == 2
    assert custom_training.main(["--resume", str(run), "--best"]) == 2
    assert "holds no best checkpoint" in capsys.readouterr().err
    assert evaluate.main([str(run / "checkpoint_00000200"), "--best"]) == 2
    assert custom_training.main([*LINE.split(), "--best"]) == 2
    output = capsys.readouterr().err
    assert "is not the folder of a run" in output and "--best requires --resume RUN" in output


@pytest.mark.slow
def test_the_best_and_newest_checkpoint_share_files_if_equal(tmp_path, scored):
    run = train(tmp_path, "--total_env_steps", "200")
    assert names(run) == ["best_checkpoint_00000200", "checkpoint_00000200"]
    pair = [run / name / "arrays.safetensors" for name in names(run)]
    assert os.stat(pair[0]).st_ino == os.stat(pair[1]).st_ino
    interreplay.load_policy(run / "best_checkpoint_00000200")  # it has a separate manifest
    shutil.rmtree(run / "checkpoint_00000200")
    assert interreplay.load_policy(run, best=True).act(np.zeros(3)).shape == (1,)


@pytest.mark.slow
def test_a_run_of_a_study_keeps_its_best_and_clears_it_with_its_results(tmp_path, scored):
    settings = vars(resolve_settings(make_parser().given(LINE.split())))
    results = StudyRun(tmp_path / "one", settings, 600).results()
    assert [each["env_steps"] for each in results] == [*range(100, 700, 100)]
    assert names(tmp_path / "one") == ["best_checkpoint_00000300", "checkpoint_00000600"]
    assert find_best(tmp_path).parent.name == "one"
    TrialFolder(tmp_path / "one").clear()  # as after an attempt without a usable checkpoint
    assert names(tmp_path / "one") == ["checkpoint_00000600"]


def test_evaluations_count_before_training():
    assert BestReturn(True, -10.0) > BestReturn(False, 100.0) and BestReturn(True, 2.0) > BestReturn(True, 1.0)
    result = {"env_runners": {"episode_return_mean": 3.0}}
    assert find_return(result, evaluations=True) is None
    assert find_return(result, evaluations=False) == BestReturn(False, 3.0)
    result["evaluation"] = {"env_runners": {"episode_return_mean": -1.0}}
    assert find_return(result, evaluations=True) == BestReturn(True, -1.0)
    assert find_return({"env_runners": {"episode_return_mean": float("nan")}}, evaluations=False) is None
    assert find_return({}, evaluations=False) is None


def test_the_best_of_several_runs(tmp_path):
    for name, value in (("one", 1.0), ("two", 3.0), ("three", 2.0)):
        folder = tmp_path / name / "best_checkpoint_00000100"
        folder.mkdir(parents=True)
        (folder / "best.json").write_text(f'{{"evaluated": true, "value": {value}, "env_steps": 100}}')
    (tmp_path / "two" / "best_checkpoint_00000100.set_aside").mkdir()
    broken = tmp_path / "four" / "best_checkpoint_00000100"
    broken.mkdir(parents=True)
    (broken / "best.json").write_text("{")
    assert find_best(tmp_path).parent.name == "two" and read_best(broken) is None
