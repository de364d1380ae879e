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

from interreplay.errors import UsageError
from interreplay.rllib import ray_session

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
    monkeypatch.setattr(ray_session.atexit, "register", lambda *_: None)
    return parent


def test_locked_and_new_folders_are_kept(temporary):
    first = Path(ray_session.private_folder()).parent
    os.utime(first, (0, 0))
    unlocked = temporary / f"{ray_session.PREFIX}young"
    unlocked.mkdir()
    (unlocked / ".lock").write_text("")
    old = temporary / f"{ray_session.PREFIX}old"
    old.mkdir()
    (old / ".lock").write_text("")
    os.utime(old, (0, time.time() - 100))
    second = Path(ray_session.private_folder()).parent
    assert {path for path in temporary.iterdir()} == {first, second, unlocked}
    assert second.stat().st_mode & 0o777 == 0o700


def test_a_long_temporary_path_is_replaced(temporary, monkeypatch):
    deep = temporary / ("d" * 60)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = Path(ray_session.private_folder())
    try:
        session = folder / "session_2026-11-21_22-25-09_123456_4194304" / "sockets" / "plasma_store.1"
        assert len(os.fsencode(session)) <= 107 and not list(deep.iterdir())
    finally:
        shutil.rmtree(folder.parent)


@pytest.mark.slow
def test_starting_after_an_earlier_session_of_ray():
    before = "import ray; ray.init(num_cpus=1, include_dashboard=False); ray.shutdown()"
    ours = "from interreplay.rllib import ray_session; ray_session.start_local(1); print(ray.is_initialized())"
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    done = subprocess.run(
        [sys.executable, "-c", f"{before}; {ours}"], capture_output=True, text=True, env=own, cwd=ROOT
    )
    assert done.stdout.split() == ["True"], done.stderr[-2000:]


TRAIN = (
    "--env CartPole-v1 --trainer DQN --hiddens 8 --learning_starts 20 --train_batch_size 8 --total_env_steps 30 "
    "--quiet --evaluation_interval 0"
)
REFUSED = {
    "locale": (f"{TRAIN} --output_dir é", "is not UTF-8; Ray expects UTF-8 (set PYTHONUTF8=1"),
    "small files": (f"{TRAIN} --output_dir results", "(ulimit -f); Ray needs at least 285 MB"),
}
BEFORE = {
    "locale": "export LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0",
    "small files": "ulimit -f 10",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_a_run_ends_with_one_line_if_ray_cannot_start(tmp_path, name):
    words, message = REFUSED[name]
    command = f"{BEFORE.get(name, ':')}; {sys.executable} -m interreplay train {words}"
    own = {key: value for key, value in os.environ.items() if key != "RAY_TMPDIR"} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=own, capture_output=True, timeout=300)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert message in line


def test_valid_conditions_are_accepted(monkeypatch):
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setattr(sys, "argv", ["train", "--output_dir", "ergebnisse_ü"])
    monkeypatch.setattr(ray_session.resource, "getrlimit", lambda _: (10**9, -1))
    ray_session.check_start(256 * 1024**2)


@pytest.mark.parametrize("over", [0, 1])
def test_folder_names_are_limited_by_the_length_of_socket_names(monkeypatch, over):
    room = 107 - len(f"/ray/session_2026-01-31_12-00-00_000000_{os.getpid()}/sockets/plasma_store")
    monkeypatch.setenv("RAY_TMPDIR", f"/{'x' * (room - 1 + over)}")
    if not over:
        return ray_session.check_start(0)
    with pytest.raises(UsageError, match=f"has {room + 1} bytes; expected at most {room}"):
        ray_session.check_start(0)


@pytest.mark.parametrize("where", ["argv", "RAY_TMPDIR"])
def test_names_that_are_not_utf_8_are_rejected(monkeypatch, where):
    if where == "argv":
        monkeypatch.setattr(sys, "argv", ["train", "r\udcff"])
    else:
        monkeypatch.setenv("RAY_TMPDIR", "/r\udcff")
    with pytest.raises(UsageError, match="is not UTF-8"):
        ray_session.check_start(0)


def test_a_small_limit_on_file_sizes_is_rejected(monkeypatch):
    monkeypatch.setattr(ray_session.resource, "getrlimit", lambda _: (10_240, -1))
    with pytest.raises(UsageError, match="0.0102 MB \\(ulimit -f\\)"):
        ray_session.check_start(256 * 1024**2)
