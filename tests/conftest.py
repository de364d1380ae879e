"""Fixtures of all tests: one thread, and one Ray per test process. `builders.py` creates the data."""

import contextlib
import gc
import os
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # also for the commands that tests start

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

from tests.devices import stand_in  # noqa: E402

CPUS = 4


def pytest_addoption(parser):
    parser.addoption("--device", default="card", help="what tests/devices compares with the processor, such as cuda")


def pytest_configure(config):
    gc.disable()  # until all tests are imported, see below
    torch.manual_seed(0)  # networks that test files create when they are imported
    if config.getoption("--device") == stand_in.NAME and stand_in.AVAILABLE:
        stand_in.begin()  # before the first backward pass, at which autograd counts the devices


def pytest_collection_finish():
    """Exclude imported modules from garbage collection, each of which takes 0.2 s with them."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _seeds():
    """Seed all generators, so that no test depends on chance."""
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - what environments and RLlib use


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _no_watch_on_the_machine():
    """Disable RLlib's thread that monitors the machine, which delays the end of each algorithm by up to .7 s."""
    if trainable := sys.modules.get("ray.tune.trainable.trainable"):
        monitor = trainable.UtilMonitor
        trainable.UtilMonitor = lambda start: monitor(start=False)


@pytest.fixture(scope="session", autouse=True)
def _quick_start():
    """Start RLlib's own algorithms as quickly as ours."""
    host = sys.modules.get("interreplay.rllib.host")
    with host.quick_start() if host else contextlib.nullcontext():
        yield


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Use a temporary folder for the copies of offline data."""
    monkeypatch.setenv("INTERREPLAY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def minari_folder(tmp_path, monkeypatch, own_cache):
    """Use temporary folders for Minari's datasets and for the cache, without Minari's warning."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="session", autouse=True)
def _ray_that_starts_by_itself():
    """If a test needs Ray and it is not running, start a quiet Ray.

    A Ray that a command starts in the test's process has enough CPUs for later tests, too.
    """
    if hook := sys.modules.get("ray._private.auto_init_hook"):
        hook.auto_init_ray = start_ray
    if session := sys.modules.get("interreplay.rllib.ray_session"):
        start_local = session.start_local
        session.start_local = lambda cpus: start_local(max(cpus or CPUS, CPUS))


@pytest.fixture(scope="module")
def cluster():
    """End a Ray with few CPUs that a command may have started; Ray starts again when a test first needs it.

    Algorithms without other processes need no Ray, and are built faster without it.
    """
    import ray

    if ray.is_initialized() and ray.cluster_resources().get("CPU", 0) < CPUS:
        ray.shutdown()


def start_ray() -> None:
    """Start a quiet Ray, if none is running, with CPUs for two remote runners and for earlier tests."""
    import ray

    from interreplay.rllib.ray_session import patient_start

    if not ray.is_initialized():
        quiet = {"include_dashboard": False, "log_to_driver": False}
        with patient_start():
            ray.init(num_cpus=CPUS, object_store_memory=200 * 2**20, **quiet)
