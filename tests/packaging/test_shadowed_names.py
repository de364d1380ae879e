"""Users' files with the names of ours: commands use our scripts, and a hidden catalog is reported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import replay_buffers
from interreplay.buffer import catalogue

NAMES = ("argument_parser", "custom_training", "cluster_run", "enjoy", "smoketest")


def call(*words: str, folder: Path) -> subprocess.CompletedProcess:
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def test_methods_are_the_classes_of_the_catalog():
    found = catalogue.methods()
    assert list(found) == list(replay_buffers.__all__)
    assert all(found[name] is getattr(replay_buffers, name) for name in found)


@pytest.mark.slow
def test_commands_do_not_import_a_users_scripts(tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this file is the user\\'s')\n")
    wrong = []
    for words in (
        ("train", "--list-buffers"),
        ("study", "--buffers", "NMER", "--envs", "Pendulum-v1", "--count"),
        ("evaluate", "--help"),
        ("smoketest", "--help"),
    ):
        done = call("-m", "interreplay", *words, folder=tmp_path)
        if done.returncode or "the user" in done.stdout + done.stderr:
            wrong.append((words, done.stdout, done.stderr))
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("file", ["replay_buffers.py", "replay_buffers/__init__.py"])
def test_a_users_package_that_hides_the_catalog_is_reported(tmp_path, file):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("raise RuntimeError('this file is the user\\'s')\n")
    done = call("-m", "interreplay", "train", "--list-buffers", folder=tmp_path)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith(f"interreplay: error: {path} hides the replay methods of interreplay")
    assert done.stderr.count("\n") == 1
