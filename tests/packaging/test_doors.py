"""The scripts at the top: one line where the Python that runs lacks what they need, as before `.venv` is activated."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOORS = sorted(path.name for path in ROOT.glob("*.py"))
# Without site-packages, and with what is around it ignored: a Python that has the standard library only.
BARE = [sys.executable, "-S", "-E"]


@pytest.fixture
def clone(tmp_path):
    """A clone of which nothing is installed."""
    for name in (*DOORS, "setup.cfg"):
        shutil.copy(ROOT / name, tmp_path / name)
    for package in ("interreplay", "replay_buffers"):
        (tmp_path / package).symlink_to(ROOT / package)
    return tmp_path


def made(clone: Path) -> None:
    """As `make install` leaves it."""
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").touch()


def call(*words: str, cwd: Path) -> tuple[int, str, str]:
    done = subprocess.run([*BARE, *words], cwd=cwd, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_there_are_seven():
    assert len(DOORS) == 7


@pytest.mark.parametrize("door", DOORS)
def test_the_environment_beside_is_named(clone, door):
    made(clone)
    code, out, err = call(door, cwd=clone)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith(f"{door}: error: {sys.executable} has no ray, torch, ")
    assert err.endswith(f"; source .venv/bin/activate first, or call .venv/bin/python {door}\n")


@pytest.mark.parametrize("door", [door for door in DOORS if door != "smoketest.py"])
def test_without_an_environment_beside_make_install_is_named(clone, door):
    code, out, err = call(door, "--help", cwd=clone)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert "make install sets up .venv" in err


def test_the_smoke_test_reports_by_itself_where_there_is_no_other_environment(clone):
    code, out, err = call("smoketest.py", cwd=clone)
    assert (code, err) == (1, "") and "FAIL  torch: not installed" in out


def test_from_elsewhere_the_whole_path_is_named(clone, tmp_path_factory):
    made(clone)
    code, _, err = call(str(clone / "enjoy.py"), cwd=tmp_path_factory.mktemp("elsewhere"))
    assert code == 2 and f"source {clone}/.venv/bin/activate first" in err and f"python {clone}/enjoy.py\n" in err


@pytest.mark.slow  # `test_a_mistyped_flag_from_the_shell` goes through one
@pytest.mark.parametrize("door", [door for door in DOORS if door != "argument_parser.py"])
def test_where_all_is_there_doors_open(door):
    done = subprocess.run([sys.executable, door, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "usage:" in done.stdout, done.stderr


def test_make_install_shows_pips_progress_and_no_shell_lines(tmp_path):
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
