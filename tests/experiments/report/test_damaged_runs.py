"""Damaged and hostile result folders are listed with a reason, and intact runs are reported."""

import json
import os

import pandas as pd
import pytest
from run_folders import ours, row, settings

from interreplay.analysis import read_runs
from interreplay.experiments.report import draw
from interreplay.experiments.report.report import main

GOOD = settings("Hopper-v5", "NMER", 0, 3000)
ROWS = [row(1000.0 * (i + 1), float(i), float(i)) for i in range(3)]
UNFINISHED = GOOD | {"total_env_steps": 9000}


def params(**changed):
    return {"params.json": json.dumps(GOOD | changed)}


def rows(*changed):
    return {"result.json": "\n".join(json.dumps(line) if isinstance(line, dict) else line for line in changed)}


# Files that replace those of an intact run, the expected state, and a part of the reason.
ATTACKS = {
    "settings-list": ({"params.json": "[1, 2]"}, "unreadable", "params.json holds no settings"),
    "seed-list": (params(seed=[1]), "unreadable", "seed is [1]; expected a whole number"),
    "rows-are-lists": (rows("[1, 2]"), "unreadable", "a list; expected results"),
    "rows-binary": ({"result.json": b"\xff\xfe\x00garbage"}, "unreadable", "can't decode"),
    "rows-are-no-json": (rows("not json at all"), "unreadable", "holds no readable result"),
    "settings-incomplete": ({"params.json": "{"}, "unreadable", "Expecting property name"),
    "not-compressed": ({"result.json.gz": b"\x1f\x8bno", "result.json": ""}, "unreadable", ""),
    "numbers-beyond-floats": (rows(*ROWS, ROWS[2] | {"num_env_steps_sampled_lifetime": 10**400}), "finished", ""),
    "returns-huge": (params(seed=21) | rows(*ROWS[:2], row(3000.0, 1e308, -1e308)), "finished", ""),
    "time-list": ({"params.json": json.dumps(UNFINISHED)} | rows(ROWS[0] | {"timestamp": [1]}), "unfinished", ""),
    "status-incomplete": ({"params.json": json.dumps(UNFINISHED), "status.json": "["}, "unreadable", "cannot be read"),
    "status-of-wrong-types": (
        {"params.json": json.dumps(UNFINISHED), "status.json": '{"state": "failed", "failures": 3}'},
        "unreadable",
        "failures is 3; expected a list",
    ),
    "error-is-a-folder": ({"params.json": json.dumps(UNFINISHED), "error.txt/x": ""}, "unfinished", ""),
}
STUDIES = {"study-list": "runs: [[1]]", "study-binary": b"\xff\xfe\x00\x00"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a folder with all damaged runs above and two intact runs."""
    top = tmp_path_factory.mktemp("damaged")
    for seed in range(2):
        ours(top / "good", "Reacher-v5", "Uniform", seed, [0.0, 5.0, 9.0])
    good = {"params.json": json.dumps(GOOD)} | rows(*ROWS)
    for name, (files, _, _) in ATTACKS.items():
        place(top / name, good | files)
    for name, text in STUDIES.items():
        place(top / name, {"study.yaml": text})
    return top


@pytest.fixture(scope="module")
def found(folder):
    return {run.path.name: run for run in read_runs([folder])}


def place(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_damaged_runs_and_studies_are_listed_with_a_reason(found):
    wrong = []
    for name, (_, state, reason) in ATTACKS.items():
        if found[name].state != state or reason not in found[name].note:
            wrong.append((name, found[name].state, found[name].note))
    assert found["rows-binary"].env == "Hopper-v5"
    for name in STUDIES:
        if found[name].state != "unreadable" or "study.yaml" not in found[name].note:
            wrong.append((name, found[name].state, found[name].note))
    assert not wrong


@pytest.mark.slow
def test_intact_runs_are_reported(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(draw, "SUFFIXES", ("svg",))
    assert main([str(folder), "--output", str(tmp_path), "--count", "all"]) == 0
    table = pd.read_csv(tmp_path / "runs.csv")
    assert list(table[table["env"] == "Reacher-v5"]["counted"]) == [True, True]
    names = {os.path.basename(path) for path in table["folder"]}
    assert names >= {*ATTACKS, *STUDIES}
