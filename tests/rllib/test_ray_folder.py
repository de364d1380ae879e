"""Ray's folder: only this user can read it, and it is removed at the end."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from interreplay.rllib import ray_session

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import os
from pathlib import Path
import ray
from interreplay.rllib import ray_session

if "RAY_TMPDIR" in os.environ:  # an earlier session of Ray in the same process
    ray.init(num_cpus=1, include_dashboard=False)
    ray.shutdown()
ray_session.start_ray(1)
folder = Path(ray._private.worker._global_node.get_temp_dir_path())
daemons = ray._private.worker._global_node.all_processes
groups = {os.getpgid(info.process.pid) for infos in daemons.values() for info in infos}
print(folder.parent, oct(folder.parent.stat().st_mode & 0o777), os.getpgrp() in groups, flush=True)
"""


@pytest.fixture
def parent():
    with tempfile.TemporaryDirectory(prefix="t") as folder:  # short enough for Ray's sockets in it
        yield Path(folder)


def run(parent: Path, **variables: str):
    own = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_TMPDIR", "RAY_AUTH"))}
    own |= {"TMPDIR": str(parent), "PYTHONPATH": str(ROOT)} | variables
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=own, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


@pytest.mark.slow
def test_ray_has_a_private_folder_and_processes_outside_of_the_group(parent):
    folder, mode, in_group = run(parent)
    assert Path(folder).parent == parent and mode == "0o700" and in_group == "False"
    assert list(parent.iterdir()) == []


@pytest.mark.slow
def test_ray_tmpdir_is_respected_after_an_earlier_session(parent):
    assert run(parent, RAY_TMPDIR=str(parent / "own"))[0] == str(parent / "own")
    assert (parent / "own" / "ray").exists()


def test_a_long_temporary_path_is_replaced(parent, monkeypatch):
    deep = parent / ("d" * 60)
    deep.mkdir()
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    monkeypatch.setattr(ray_session.atexit, "register", lambda *_: None)
    folder = Path(ray_session.private_folder())
    try:
        session = folder / "session_2026-11-21_22-25-09_123456_4194304" / "sockets" / "plasma_store.1"
        assert len(os.fsencode(session)) <= 107 and not list(deep.iterdir())
        assert folder.parent.stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(folder.parent)
