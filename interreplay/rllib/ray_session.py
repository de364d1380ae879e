"""Ray's session of this process: quiet, on this machine only, with limits on its threads and a private folder."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import ray
import torch
from ray._private import ray_constants, services, worker
from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]

from interreplay.environments.own_modules import LAST
from interreplay.errors import InterreplayWarning

OBJECT_STORE = 256 * 1024**2
"""Bytes of the object store, which only transfers weights, configurations and fragments of episodes."""
START_LIMIT = 300
"""Seconds that the start of Ray may take."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "PYTHONWARNINGS": "ignore",
    LAST: "1",
}
PREFIX = "interreplay_"
_LONGEST_FOLDER = 107 - len("/r/session_2026-01-31_12-00-00_000000_4194304/sockets/plasma_store.1")
"""Bytes of a folder's name that leave room for the names of Ray's sockets; the system allows 107 bytes."""
_CHECKER = r"gymnasium\.utils\.passive_env_checker"
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


def hide_messages() -> None:
    """Hide the messages of Ray, and all warnings except ours and those about the environment's behavior."""
    os.environ.update(make_quiet_variables())
    warnings.simplefilter("ignore")
    _show_warnings()
    # Ray prints colored messages about workers that died, even with ``log_to_driver=False``.
    worker.print_to_stdstream = lambda data, ignore_prefix: None
    for name in ("ray", "ray.rllib"):  # they have separate levels
        logging.getLogger(name).setLevel(logging.ERROR)


def make_quiet_variables() -> dict[str, str]:
    """Return the environment variables that quiet Ray; values that are already set are kept."""
    return {name: os.environ.get(name, value) for name, value in _QUIET.items()}


def _show_warnings() -> None:
    """Write each of our warnings, and of Gymnasium's environment checker, once, on one line, to stderr."""
    gym.logger.min_level = gym.logger.WARN
    warnings.filterwarnings("always", module=_CHECKER)
    warnings.simplefilter("always", InterreplayWarning)
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **options: Any) -> None:
        source = "warning" if issubclass(category, InterreplayWarning) else "warning of Gymnasium"
        text = _COLORS.sub("", str(message)).removeprefix("WARN: ")
        if text not in shown:
            shown.add(text)
            sys.stderr.write(f"{source}: {' '.join(text.split())}\n")

    warnings.showwarning = show


def prepare_host(threads: int, workers: int, device: str = "cpu") -> None:
    """Limit the learner's CPU threads, hide messages, and start Ray for sampling processes or a GPU of the learner."""
    os.environ.update(thread_limits(threads))
    torch.set_num_threads(threads)
    hide_messages()
    # It reports lost runners in eight lines before our error, which has one.
    logging.getLogger("ray.rllib.utils.actor_manager").setLevel(logging.CRITICAL)
    if workers or device != "cpu":
        start_local(workers + 1)


def thread_limits(threads: int) -> dict[str, str]:
    """Return the environment variables that limit the threads of numerical libraries."""
    return dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))


def start_ray(cpus: int) -> None:
    """Start Ray quietly, unless it is running already."""
    hide_messages()
    start_local(cpus)


def start_local(cpus: int) -> None:
    """Start Ray on 127.0.0.1 without a dashboard and with its own token, unless it is running already.

    Ray's processes run in their own sessions, so that signals to the group of this process do not reach them.
    """
    if not ray.is_initialized():
        if "RAY_AUTH_TOKEN" not in os.environ and "RAY_AUTH_TOKEN_PATH" not in os.environ:
            # By default, all clusters share one token file, which two first starts would write at the same time.
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
            AuthenticationTokenLoader.instance().reset_cache()  # it may hold the token of an earlier session
        # On a busy machine a worker needs more than Ray's 60 seconds to import its modules.
        os.environ.setdefault("RAY_worker_register_timeout_seconds", "600")
        # On 127.0.0.1, as Ray listens by default on Windows and macOS.
        loopback = replaced(vars(ray_constants), {"ENABLE_RAY_CLUSTER": False})
        environment = replaced(os.environ, {ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0"})
        with loopback, environment, _separate_sessions(), preserve_sigterm(), patient_start():
            ray.init(
                address="local",
                num_cpus=cpus,
                object_store_memory=OBJECT_STORE,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _temp_dir=make_private_folder(),
            )
    logging.getLogger("ray").setLevel(logging.ERROR)


@contextlib.contextmanager
def replaced(entries: MutableMapping[str, Any], values: Mapping[str, Any]) -> Iterator[None]:
    """Replace entries inside the block, such as environment variables or the ``vars`` of a module."""
    before = {name: entries[name] for name in values if name in entries}
    entries.update(values)
    try:
        yield
    finally:
        entries.update(before)
        for name in values.keys() - before.keys():
            entries.pop(name, None)


def patient_start() -> contextlib.AbstractContextManager[None]:
    """Let a Ray that starts inside the block wait `START_LIMIT` seconds for its node.

    Ray waits for 30 seconds, which the start can exceed on a busy machine.
    """
    get_node = services.get_node

    def wait(*arguments: Any, **options: Any) -> Any:
        end = time.monotonic() + START_LIMIT
        while True:
            try:
                return get_node(*arguments, **options)
            except RuntimeError:  # it is not registered yet
                if time.monotonic() > end:
                    raise
            time.sleep(0.1)

    return replaced(vars(services), {"get_node": wait})


def _separate_sessions() -> contextlib.AbstractContextManager[None]:
    """Start Ray's processes so that SIGTERM to this process's group (``timeout``, ``kill -- -PGID``) spares them.

    Linux ends them with their parent. On other systems Ray's reaper, which only knows groups, ends them, so nothing
    changes there.
    """
    popen = services.ConsolePopen

    def start(*words: Any, preexec_fn: Callable[[], None] | None = None, **options: Any) -> Any:
        def prepare() -> None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # blocked in this process only
            if preexec_fn is not None:
                preexec_fn()

        return popen(*words, preexec_fn=prepare, start_new_session=True, **options)

    if not sys.platform.startswith("linux"):
        return contextlib.nullcontext()
    return replaced(vars(services), {"ConsolePopen": start})


@contextlib.contextmanager
def preserve_sigterm() -> Iterator[None]:
    """Block SIGTERM and restore its handler afterwards, because Ray installs its own handlers."""
    handler = signal.getsignal(signal.SIGTERM)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def make_private_folder() -> str | None:
    """Create a folder for Ray's files that only this user can read and that is removed when the program exits.

    Returns:
        The path; None if ``RAY_TMPDIR`` is set, which Ray then uses.
    """
    if "RAY_TMPDIR" in os.environ:
        return None
    parent = Path(tempfile.gettempdir())
    if len(os.fsencode(parent)) + len(f"/{PREFIX}12345678") > _LONGEST_FOLDER:
        parent = Path("/tmp")
    folder = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
    atexit.register(_remove, folder)
    return f"{folder}/r"  # Ray creates this folder readable by everyone, inside the private one


def _remove(folder: str) -> None:
    """End Ray, which would continue to write, and remove its folder; Ctrl-C is ignored for these seconds."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    ray.shutdown()
    for _ in range(20):  # its last processes may still be running
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(0.1)
