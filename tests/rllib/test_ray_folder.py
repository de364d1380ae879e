"""Where Ray writes: a folder of this user's only, gone at the end; those that were left behind go at the next start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from interreplay.runs import ray_folder

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import os, sys
from pathlib import Path
import ray
from interreplay.rllib import ray_session

ray_session.prepare_host(1, 0)
folder = Path(ray._private.worker._global_node.get_temp_dir_path())
daemons = ray._private.worker._global_node.all_processes
groups = {os.getpgid(info.process.pid) for infos in daemons.values() for info in infos}
print(folder.parent, oct(folder.parent.stat().st_mode & 0o777), os.getpgrp() in groups, flush=True)
if sys.argv[1:]:
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def parent():
    with tempfile.TemporaryDirectory(prefix="t") as folder:  # short enough for Ray's sockets in it
        yield Path(folder)


def run(parent: Path, *words: str, **variables: str):
    own = {name: value for name, value in os.environ.items() if name != "RAY_TMPDIR"}
    own |= {"TMPDIR": str(parent), "PYTHONPATH": str(ROOT)} | variables
    command = [sys.executable, "-c", SCRIPT, *words]
    return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_ray_has_a_private_folder_and_processes_outside_of_the_group(parent):
    done = run(parent)
    assert done.returncode == 0, done.stderr
    folder, mode, in_group = done.stdout.split()
    assert Path(folder).parent == parent and mode == "0o700" and in_group == "False"
    assert list(parent.iterdir()) == []
    done = run(parent, "killed")
    assert done.returncode == -9
    (left,) = parent.iterdir()
    os.utime(left, (0, 0))
    done = run(parent)
    assert done.returncode == 0 and not left.exists() and list(parent.iterdir()) == []


@pytest.mark.slow
def test_ray_tmpdir_is_respected(parent):
    done = run(parent, RAY_TMPDIR=str(parent / "own"))
    assert done.stdout.split()[0] == str(parent / "own")
    assert (parent / "own" / "ray").exists()


@pytest.fixture
def temporary(parent, monkeypatch):
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(parent))
    monkeypatch.setattr(ray_folder.atexit, "register", lambda *_: None)
    return parent


def test_folders_in_use_or_just_made_stay(temporary):
    first = Path(ray_folder.private_folder()).parent
    os.utime(first, (0, 0))
    unlocked = temporary / f"{ray_folder.PREFIX}young"
    unlocked.mkdir()
    (unlocked / ".lock").write_text("")
    old = temporary / f"{ray_folder.PREFIX}old"
    old.mkdir()
    (old / ".lock").write_text("")
    os.utime(old, (0, time.time() - 100))
    second = Path(ray_folder.private_folder()).parent
    assert {path for path in temporary.iterdir()} == {first, second, unlocked}
    assert second.stat().st_mode & 0o777 == 0o700


def test_a_long_path_would_leave_no_room_for_sockets(temporary, monkeypatch):
    deep = temporary / ("d" * 60)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = Path(ray_folder.private_folder())
    try:
        session = folder / "session_2026-11-21_22-25-09_123456_4194304" / "sockets" / "plasma_store.1"
        assert len(os.fsencode(session)) <= 107 and not list(deep.iterdir())
    finally:
        shutil.rmtree(folder.parent)


@pytest.mark.slow
def test_a_ray_that_was_started_and_stopped_before_does_no_harm():
    before = "import ray; ray.init(num_cpus=1, include_dashboard=False); ray.shutdown()"
    ours = "from interreplay.rllib import ray_session; ray_session.start_local(1); print(ray.is_initialized())"
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    done = subprocess.run(
        [sys.executable, "-c", f"{before}; {ours}"], capture_output=True, text=True, env=own, cwd=ROOT
    )
    assert done.stdout.split() == ["True"], done.stderr[-2000:]
