"""Users' files with the names of ours: commands use our scripts, and a hidden catalog is reported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import replay_buffers
from interreplay.buffer import catalogue

RUN_ALL = """
import runpy, sys

codes = []
for words in ("train --list-buffers", "study --buffers NMER --envs Pendulum-v1 --count", "evaluate -h", "smoketest -h"):
    sys.argv = ["interreplay", *words.split()]
    try:
        runpy.run_module("interreplay", run_name="__main__")
    except SystemExit as end:
        codes.append(end.code or 0)
"""
"""Commands as by `python -m interreplay`, one after the other in one process."""
NAMES = ("argument_parser", "custom_training", "cluster_run", "enjoy", "smoketest")


def call(*words: str, folder: Path) -> subprocess.CompletedProcess:
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def test_methods_are_the_classes_of_the_catalog():
    found = catalogue.methods()
    assert list(found) == [*replay_buffers.__all__, "DeviceNMER", "SWD"]
    assert all(found[name] is getattr(replay_buffers, name) for name in replay_buffers.__all__)


@pytest.mark.slow
def test_commands_do_not_import_a_users_scripts(tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this file is the user\\'s')\n")
    done = call("-c", f"{RUN_ALL}print(codes)", folder=tmp_path)
    assert done.stdout.endswith("\n[0, 0, 0, 0]\n") and "the user" not in done.stdout + done.stderr, done.stderr


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
