"""Runs and studies made before modules moved (by commit d2c55bd) are resumed, evaluated and reported as ever.

How the run goes on (``run_resumed.json``) is what that commit made of it with the index of decision 15 put in.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ray.rllib.algorithms.algorithm import Algorithm

import custom_training
import enjoy
from interreplay.analysis import __main__ as analysis
from interreplay.rllib import SAC
from interreplay.rllib.checkpoints import safe_pickle
from interreplay.rllib.checkpoints.moved import MOVED, RENAMED

pytestmark = pytest.mark.usefixtures("cluster")

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "before_the_move"
CHECKPOINT = "checkpoint_00000300"


@pytest.fixture
def run(tmp_path):
    return Path(shutil.copytree(DATA / "run", tmp_path / "run"))


@pytest.fixture
def study(tmp_path):
    return Path(shutil.copytree(DATA / "study", tmp_path / "study"))


def recorded():
    return json.loads((DATA / "run_resumed.json").read_text())


def rows(folder):
    with (folder / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_run_goes_on_as_it_did(run):
    assert custom_training.main(["--resume", str(run), "--total_env_steps", "500", "--quiet"]) == 0
    expected = recorded()
    found = rows(run)[-len(expected) :]
    assert [float(row["env_steps"]) for row in found] == [400, 500]
    for mine, before in zip(found, expected, strict=True):
        assert {name: float(mine[name]) for name in before} == pytest.approx(before, rel=1e-5, abs=1e-7)
    assert sorted(path.name for path in run.glob("checkpoint_*")) == ["checkpoint_00000500"]


def test_a_run_is_evaluated(run, capsys):
    assert enjoy.main([str(run), "--episodes", "1", "--seed", "0"]) == 0
    plain = capsys.readouterr().out
    assert enjoy.main([str(run), "--episodes", "1", "--seed", "0", "--trust_checkpoint"]) == 0
    assert capsys.readouterr().out == plain and "episode 1: return -" in plain


@pytest.mark.slow
def test_from_python_it_goes_on_as_it_did():
    folder = DATA / "run" / CHECKPOINT
    for make in (SAC.from_checkpoint, lambda path: SAC.from_checkpoint(path, trusted=True), Algorithm.from_checkpoint):
        algorithm = make(str(folder))
        assert type(algorithm) is SAC and algorithm.env_steps == 300 and len(algorithm.replay_buffer) == 300
        found = algorithm.train()["learners"]["default_policy"]
        part = "learners/default_policy/"
        before = {name.removeprefix(part): value for name, value in recorded()[0].items() if name.startswith(part)}
        assert before and {name: found[name] for name in before} == pytest.approx(before, rel=1e-5)
        algorithm.stop()


def test_classes_are_found_under_the_names_that_they_had():
    content = (DATA / "run" / CHECKPOINT / safe_pickle.CONSTRUCTOR).read_bytes()
    assert b"interreplay.rllib.sac" in content
    assert pickle.loads(content)["class"] is SAC
    reference = safe_pickle.load(DATA / "run" / CHECKPOINT / safe_pickle.CONSTRUCTOR)["class"]
    assert reference == ("interreplay.rllib.algorithms.sac", "SAC")
    for before, now in MOVED.items():
        new = importlib.import_module(now)
        name = next(name for name, value in vars(new).items() if getattr(value, "__module__", "") == now)
        assert getattr(importlib.import_module(before), name) is getattr(new, name)
    with pytest.raises(AttributeError):
        _ = importlib.import_module("interreplay.rllib.sac").nothing
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("interreplay.rllib.nothing")


@pytest.mark.slow
def test_runs_and_studies_are_reported(tmp_path, capsys):
    assert analysis.main([str(DATA / "run"), str(DATA / "study"), "--output", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("3 runs: 3 finished")
    assert "NMER(k=5)" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize(("place", "now"), RENAMED.items())
def test_classes_are_found_by_the_names_that_they_had(place, now, tmp_path):
    module, before = place
    new = getattr(importlib.import_module(module), now)
    (tmp_path / "class.pkl").write_bytes(f"c{module}\n{before}\n.".encode())  # a pickle of nothing but the name
    assert safe_pickle.load(tmp_path / "class.pkl", trusted=True) is new
    assert safe_pickle.load(tmp_path / "class.pkl") == (module, now)
    assert new.__name__ == now


def resume_study(study):
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    command = [sys.executable, str(ROOT / "cluster_run.py"), "--resume", str(study)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_a_study_goes_on(study, run):
    before = {path: path.read_bytes() for path in study.rglob("progress.csv")}
    resume_study(study)
    assert {path: path.read_bytes() for path in study.rglob("progress.csv")} == before, "both were finished"
    trial = study / "SAC_Pendulum-v1_NMER-k=5-_s0"
    shutil.copytree(run / CHECKPOINT, trial / CHECKPOINT)
    status = json.loads((trial / "status.json").read_text())
    (trial / "status.json").write_text(json.dumps(status | {"state": "interrupted"}))
    resume_study(study)
    status = json.loads((trial / "status.json").read_text())
    assert (status["state"], status["begun_at"], status["failures"]) == ("finished", 300, [])
    assert [float(row["env_steps"]) for row in rows(trial)] == [100, 200, 300]
