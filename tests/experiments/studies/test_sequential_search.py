"""Sequential search with Optuna through Ray Tune, and the median stopping rule."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ray.tune.search import Searcher

from interreplay.errors import UsageError
from interreplay.experiments.commands import study as command
from interreplay.experiments.studies.study import State
from interreplay.experiments.tune import hyperparameter_search
from interreplay.experiments.tune.hyperparameter_search import SequentialSearch, domains, scheduler
from tests.experiments.commands.command_lines import read_csv
from tests.experiments.commands.command_lines import steps as recorded_steps

ROOT = Path(__file__).resolve().parents[3]
SPACE = domains({"x": "uniform(0, 1)", "k": "randint(1, 4)"})
TINY = "--total_env_steps 200 --steps_per_iteration 100 --learning_starts 60 --train_batch_size 32 --buffer_size 2000"
TINY += " --hiddens 16,16 --evaluation_num_episodes 1 --checkpoint_freq 1 --preset none --keep_best False"


def slot(values=None, refuse=lambda values: False):
    def job(values):
        if refuse(values):
            raise UsageError("these do not fit")
        return Path("somewhere"), dict(values)

    return values, job


def suggested(search, number):
    return search.suggest(f"trial_{number}")["job"]["settings"]


def test_draws_concentrate_near_good_earlier_runs():
    rng = np.random.default_rng(0)
    before = [({"x": x, "k": 2}, -((x - 0.3) ** 2)) for x in rng.random(40)]
    far = {}
    for known in (before, []):
        search = SequentialSearch(SPACE, [slot() for _ in range(30)], known)
        far[len(known)] = np.mean([abs(suggested(search, number)["x"] - 0.3) for number in range(30)])
        assert search.suggest("one more") == Searcher.FINISHED
    assert far[40] < 0.2 < far[0]  # .29 of random draws


def test_interrupted_runs_keep_their_values_and_invalid_draws_are_repeated():
    began = {"x": 0.123, "k": 3}
    refuse = lambda values: values["k"] != 2
    search = SequentialSearch(SPACE, [slot(began), slot(refuse=refuse), slot()], [({"x": 0.5, "k": 1}, float("nan"))])
    assert search.suggest("trial_0") == {"job": {"folder": "somewhere", "settings": began}}
    assert suggested(search, 1)["k"] == 2
    assert suggested(search, 2) != began
    search.on_trial_complete("trial_0", {"score": 1.0})
    search.on_trial_complete("trial_1", error=True)
    assert [str(trial.state.name) for trial in search._ot_study.trials if trial.value == 1.0] == ["COMPLETE"]
    hopeless = SequentialSearch(SPACE, [slot(refuse=lambda values: True)], [])
    with pytest.raises(UsageError, match="none of 100 draws of Optuna can run; the last one: these do not fit"):
        hopeless.suggest("trial_0")


def test_a_resumed_search_does_not_repeat_draws_of_interrupted_runs():
    first = SequentialSearch(SPACE, [slot() for _ in range(4)], [])
    drawn = [suggested(first, number) for number in range(2)]
    resumed = SequentialSearch(SPACE, [*map(slot, drawn), slot(), slot()], [])
    found = [suggested(resumed, number) for number in range(4)]
    assert found[:2] == drawn
    assert len({values["x"] for values in found}) == 4


def test_the_median_scheduler_stops_runs_that_fall_behind():
    jobs = [{"total_env_steps": 900, "steps_per_iteration": 100, "evaluation_interval": 1}]
    median = scheduler("median", jobs)
    for i in range(3):
        for steps in (100, 200):
            median.on_trial_complete(None, f"before_{i}", {"env_steps": steps, "score": steps / 100 + i})
    assert median.on_trial_result(None, "good", {"env_steps": 100, "score": 9.0}) == "CONTINUE"
    assert median.on_trial_result(None, "new", {"env_steps": 100}) == "CONTINUE"  # no evaluation yet
    median.on_trial_complete(None, "new", {"env_steps": 200})
    assert median.on_trial_result(None, "bad", {"env_steps": 100, "score": -5.0}) == "STOP"


def test_a_missing_optuna_is_reported(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(hyperparameter_search.importlib.util, "find_spec", lambda name: None)
    line = "--buffers NMER --search tau=uniform(0,1) --output_dir".split()
    assert command.main([*line, str(tmp_path / "r"), "--searcher", "tpe"]) == 2
    assert "--searcher tpe needs optuna: pip install 'interreplay[search]'" in capsys.readouterr().err


def drawn(results):
    return {path.parent.name: json.loads(path.read_text()) for path in results.glob("*/drawn.json")}


def states(results):
    return {path.parent.name: json.loads(path.read_text())["state"] for path in results.glob("*/status.json")}


@pytest.mark.slow
def test_a_killed_search_resumes_with_its_results_and_stops_a_weak_run(cluster, tmp_path, capsys):
    results = tmp_path / "r"
    line = [*TINY.split(), "--envs", "tests.experiments.studies.worse:Worse-v0", "--env_args", f"results={results}"]
    line += ["--buffers", "Uniform", "--output_dir", results]
    line += ["--search", "tau=loguniform(.001,.9)", "--searcher", "tpe", "--num_samples", 3]
    line += ["--scheduler", "asha", "--max_concurrent", 1]
    words = [sys.executable, "-m", "interreplay", "study", *map(str, line)]
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    started = subprocess.Popen(words, env=variables, cwd=tmp_path, start_new_session=True)
    deadline = time.monotonic() + 900
    while "finished" not in states(results).values():
        assert started.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    before = drawn(results)
    assert 1 <= len(before) < 3
    assert command.main(["--resume", str(results)]) == 0
    out = capsys.readouterr().out
    after = drawn(results)
    assert len(after) == 3 and {name: after[name] for name in before} == before
    rows = {row["name"]: row for row in read_csv(results / "runs.csv")}
    assert {name: float(row["tau"]) for name, row in rows.items()} == {name: v["tau"] for name, v in after.items()}
    assert [rows[name]["state"] for name in sorted(after)] == ["finished", "finished", "stopped early"]
    for name, values in after.items():
        expected = [100, 200] if rows[name]["state"] == "finished" else [100]
        assert recorded_steps(results / name) == expected, "nothing is lost or repeated"
        assert json.loads((results / name / "params.json").read_text())["tau"] == values["tau"]
    best = max(rows.values(), key=lambda row: float(row["final_return"]) if row["state"] == "finished" else -1e9)
    (found,) = [line for line in out.splitlines() if line.startswith("command of the best in tests.")]
    assert "interreplay train " in found and f"--tau={best['tau']}" in found
    assert command.main(["--resume", str(results)]) == 0
    assert "3 runs, 2 of them finished, 1 stopped early; results in" in capsys.readouterr().out


def test_runs_that_have_not_started_have_no_values(tmp_path):
    words = ["--search", "tau=uniform(0, 1)", "--searcher", "tpe", "--buffers", "Uniform", "--num_samples", "2"]
    given = command.make_parser().given([*words, "--envs", "Pendulum-v1", "--output_dir", str(tmp_path)])
    study, folder = command.read_new(given)
    study = replace(study, execution=replace(study.execution, searcher="tpe"))
    folder.trial(study.runs[0]).note_drawn({"tau": 0.5})
    runs = command.with_draws(study, folder)
    assert [run.sampled for run in runs] == [{"tau": 0.5}, {}]


def test_a_finished_run_whose_values_were_removed_is_left_out(tmp_path, monkeypatch):
    """The message about a damaged drawn.json asks to remove it."""
    words = ["--search", "tau=uniform(0, 1)", "--searcher", "tpe", "--buffers", "Uniform", "--num_samples", "2"]
    given = command.make_parser().given([*words, "--envs", "Pendulum-v1", "--output_dir", str(tmp_path)])
    study, folder = command.read_new(given)
    folder.trial(study.runs[0]).note(state=State.FINISHED)
    monkeypatch.setattr(hyperparameter_search, "curve", lambda path: [(100, 5.0)])
    search = hyperparameter_search.sequential(study, folder, lambda run: {})
    assert search.suggest("trial_1")["job"]["folder"].endswith(study.runs[1].name)
    assert search.suggest("trial_2") == Searcher.FINISHED


def test_the_grace_period_of_asha_is_at_most_the_length_of_the_runs():
    asha = scheduler("asha", [{"total_env_steps": 500, "steps_per_iteration": 1_000, "evaluation_interval": 1}])
    assert [step for bracket in asha._brackets for step, _ in bracket._rungs] == [500]
