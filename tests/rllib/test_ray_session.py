"""Supported versions of Ray, and the folders and processes of the Ray that commands start."""

import configparser
import inspect
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement
from ray._private import node, services
from ray.rllib.utils import actor_manager

from interreplay.rllib import ray_session
from interreplay.rllib.host import TESTED, minor_version, warn_if_untested
from tests.rllib.small_runs import config

ROOT = Path(__file__).resolve().parents[2]
IMPORT = "import ray; ray.__version__ = '2.99.0'; import interreplay.rllib; import interreplay.rllib.host"


def test_the_start_of_ray_waits_longer_for_its_node_than_ray_does(monkeypatch):
    def not_registered(*arguments):
        calls.append(arguments)
        if len(calls) < 3:
            raise RuntimeError("no such node")
        return {"node_id": "1"}

    calls = []
    monkeypatch.setattr(services, "get_node", not_registered)
    with ray_session.patient_start():
        assert services.get_node("127.0.0.1:6379", "1") == {"node_id": "1"}
    assert calls == [("127.0.0.1:6379", "1")] * 3 and services.get_node is not_registered
    monkeypatch.setattr(ray_session, "START_LIMIT", -1)
    calls.clear()
    with ray_session.patient_start(), pytest.raises(RuntimeError, match="no such node"):
        services.get_node("127.0.0.1:6379", "1")
    assert "ray._private.services.get_node(" in inspect.getsource(node.Node.__init__), "what the wait replaces"


def test_ray_does_not_report_lost_runners_in_addition_to_our_error(monkeypatch):
    monkeypatch.setattr(ray_session, "hide_messages", str)
    monkeypatch.setattr(ray_session, "thread_limits", lambda threads: {})
    log = logging.getLogger(actor_manager.__name__)
    level = log.level
    try:
        ray_session.prepare_host(torch.get_num_threads(), workers=0)
        assert not log.isEnabledFor(logging.ERROR)
    finally:
        log.setLevel(level)


def test_only_newer_versions_of_ray_are_reported():
    for version in ("2.61.0", "2.100.1", "3.0.0.dev0"):
        with pytest.warns(UserWarning, match=f"Ray {version} is untested; tested versions: 2.54, .*, 2.60. If"):
            warn_if_untested(version)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for minor in TESTED:
            warn_if_untested(f"{minor}.1")


@pytest.mark.slow
def test_the_import_reports_it_once():
    words = [sys.executable, "-c", IMPORT]
    # A Ray session that an earlier test started in this process turned Python's warnings off in its environment.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("is untested") == 1


def test_the_range_ends_one_minor_version_after_the_tested_ones():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options"]["install_requires"].splitlines()
    (ray,) = [Requirement(line) for line in lines if line.startswith("ray")]
    major, newest = minor_version(TESTED[-1])
    accepted = {minor for minor in range(200) if f"{major}.{minor}.0" in ray.specifier}
    assert accepted == {minor_version(each)[1] for each in TESTED} | {newest + 1}
    assert not ray.specifier.contains("3.0.0")


def test_the_page_lists_every_tested_version():
    page = (ROOT / "docs" / "versions.md").read_text()
    assert [each for each in TESTED if f"| {each}." not in page] == []


def test_an_algorithm_leaves_no_folder_in_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("ray.rllib.algorithms.algorithm.DEFAULT_STORAGE_PATH", str(tmp_path / "own"), raising=False)
    config().build_algo().stop()
    assert list(tmp_path.iterdir()) == []


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
    words = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(words, cwd=ROOT, env=own, capture_output=True, text=True, timeout=300)
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


def test_ctrl_c_does_not_interrupt_the_end_of_ray(tmp_path, monkeypatch):
    folder = tmp_path / "ray"
    folder.mkdir()
    monkeypatch.setattr(ray_session.ray, "shutdown", lambda: signal.raise_signal(signal.SIGINT))
    handler = signal.getsignal(signal.SIGINT)
    try:
        ray_session._remove(str(folder))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert not folder.exists()


def test_a_long_temporary_path_is_replaced(parent, monkeypatch):
    deep = parent / ("d" * 60)
    deep.mkdir()
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    monkeypatch.setattr(ray_session.atexit, "register", lambda *_: None)
    folder = Path(ray_session.make_private_folder())
    try:
        session = folder / "session_2026-11-21_22-25-09_123456_4194304" / "sockets" / "plasma_store.1"
        assert len(os.fsencode(session)) <= 107 and not list(deep.iterdir())
        assert folder.parent.stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(folder.parent)
