"""The top-level scripts and commands: missing packages are one line, and users' files of our names hide nothing."""

import configparser
import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import replay_buffers
from interreplay.buffer import catalogue

ROOT = Path(__file__).resolve().parents[2]
DOORS = sorted(path.name for path in ROOT.glob("*.py"))
# Without site-packages and environment variables: a Python with the standard library only.
BARE = [sys.executable, "-S", "-E"]


@pytest.fixture
def clone(tmp_path):
    """A clone without an installation."""
    for name in (*DOORS, "setup.cfg"):
        shutil.copy(ROOT / name, tmp_path / name)
    for package in ("interreplay", "replay_buffers"):
        (tmp_path / package).symlink_to(ROOT / package)
    return tmp_path


def made(clone: Path) -> None:
    """A clone after `make install`."""
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").touch()


def call(*words: str, cwd: Path) -> tuple[int, str, str]:
    done = subprocess.run([*BARE, *words], cwd=cwd, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_scripts_without_packages_name_the_environment(clone):
    assert len(DOORS) == 8
    for door in DOORS:
        if door != "smoketest.py":
            code, out, err = call(door, "--help", cwd=clone)
            assert (code, out, err.count("\n")) == (2, "", 1), err
            assert "make install sets up .venv" in err
    made(clone)
    for door in DOORS:
        code, out, err = call(door, cwd=clone)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith(f"{door}: error: {sys.executable} has no ray, torch, ")
        assert err.endswith(f"; source .venv/bin/activate first, or call .venv/bin/python {door}\n")


def test_the_smoke_test_reports_missing_packages(clone):
    code, out, err = call("smoketest.py", cwd=clone)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    for package, requirement in ("ray", "ray[rllib]"), ("torch", "torch"):
        at = next(i for i, line in enumerate(lines) if line.startswith(f"FAIL  {package}: not installed"))
        assert f'-m pip install "{requirement}' in lines[at + 1]
    assert any(line.startswith("FAIL  training") for line in lines) and "checks failed" in lines[-1]


def test_from_another_folder_the_full_path_is_named(clone, tmp_path_factory):
    made(clone)
    code, _, err = call(str(clone / "enjoy.py"), cwd=tmp_path_factory.mktemp("elsewhere"))
    assert code == 2 and f"source {clone}/.venv/bin/activate first" in err and f"python {clone}/enjoy.py\n" in err


def test_the_commands_of_a_wheel_exist_and_import_their_packages_later():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options.entry_points"]["console_scripts"].strip().splitlines()
    scripts = dict(map(str.strip, line.split("=")) for line in lines)
    assert {"interreplay", "interreplay-train", "interreplay-study", "rllib"} <= scripts.keys()
    for name, place in scripts.items():
        assert callable(EntryPoint(name, place, "console_scripts").load())
        # Ctrl-C during the slow imports is handled there
        assert place.startswith("interreplay.experiments.commands.main:")


def test_make_install_prints_only_the_output_of_pip(tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    words = ["make", "-B", "install", f"VENV={tmp_path / 'venv'}", f"PYTHON={sys.executable}", "TORCH="]
    # Without the variables that `make test` passes to its commands: with them make prints more.
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    }
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    pip = "-m pip install --disable-pip-version-check"
    assert done.stdout.splitlines()[1:] == [f"{pip} -r env/requirements.txt", f"{pip} --no-deps -e ."]
    assert (done.returncode, done.stderr) == (0, "")


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


def call_next_to(*words: str, folder: Path) -> subprocess.CompletedProcess:
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
    done = call_next_to("-c", f"{RUN_ALL}print(codes)", folder=tmp_path)
    assert done.stdout.endswith("\n[0, 0, 0, 0]\n") and "the user" not in done.stdout + done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("file", ["replay_buffers.py", "replay_buffers/__init__.py"])
def test_a_users_package_that_hides_the_catalog_is_reported(tmp_path, file):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("raise RuntimeError('this file is the user\\'s')\n")
    done = call_next_to("-m", "interreplay", "train", "--list-buffers", folder=tmp_path)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith(f"interreplay: error: {path} hides the replay methods of interreplay")
    assert done.stderr.count("\n") == 1
