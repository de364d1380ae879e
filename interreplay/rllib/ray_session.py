"""Ray's session of this process: started quietly, on this machine only, with limits on its threads."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import ray
import torch
from ray._private import ray_constants, services, worker
from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]

from interreplay.environments.checker_warnings import show_checker_warnings
from interreplay.environments.own_modules import LAST
from interreplay.rllib.ray_folder import check_start, private_folder

OBJECT_STORE = 256 * 1024**2
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "PYTHONWARNINGS": "ignore",
    LAST: "1",
}


def quiet() -> None:
    """Hide the messages of Ray and its parts, and all warnings but those about the environment's behavior."""
    os.environ.update(quieting())
    warnings.simplefilter("ignore")
    show_checker_warnings()
    worker.print_to_stdstream = _unsaid
    for name in ("ray", "ray.rllib"):  # the second has a level of its own
        logging.getLogger(name).setLevel(logging.ERROR)


def _unsaid(data: object, ignore_prefix: bool) -> None:
    """Drop what Ray's listener prints, colored, of workers that died, also where ``log_to_driver`` is off."""


def quieting() -> dict[str, str]:
    """Return the environment variables that do so, as they are set already or by default."""
    return {name: os.environ.get(name, value) for name, value in _QUIET.items()}


def prepare_host(threads: int, workers: int) -> None:
    """Set the CPU threads and start Ray, which RLlib needs also without other processes, with its chatter kept back.

    Args:
        threads: CPU threads of the learner.
        workers: Processes that sample.
    """
    quiet()
    os.environ.update(thread_limits(threads))
    torch.set_num_threads(threads)
    start_local(workers + 1)


def thread_limits(threads: int) -> dict[str, str]:
    """Return the environment variables from which libraries take how many threads they may start."""
    return dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))


def start_local(cpus: int | None, gpus: int | None = None) -> None:
    """Start a Ray of this process, unless there is one: on 127.0.0.1, without a dashboard, with a token of its own.

    Its processes are in sessions of their own: what a signal to this process's group asks for is up to this one.

    Args:
        cpus: CPUs that it hands out; None for all of the machine.
        gpus: GPUs likewise; None for those that it finds.

    Raises:
        UsageError: Ray cannot start here.
    """
    if not ray.is_initialized():
        check_start(OBJECT_STORE)
        if "RAY_AUTH_TOKEN" not in os.environ and "RAY_AUTH_TOKEN_PATH" not in os.environ:
            # Ray asks for a token by default, one file for all its clusters that two first starts would both write.
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
            AuthenticationTokenLoader.instance().reset_cache()  # a Ray before this one had another token
        # What passes through the object store is small: weights, configurations and fragments of episodes.
        with _loopback(), _sessions_of_their_own(), _sigterm_kept():
            ray.init(
                address="local",
                num_cpus=cpus,
                num_gpus=gpus,
                object_store_memory=OBJECT_STORE,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _temp_dir=private_folder(ray.shutdown),
            )
    logging.getLogger("ray").setLevel(logging.ERROR)


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Let a Ray that is started meanwhile listen on 127.0.0.1, as Ray does by itself on Windows and macOS."""
    name, before = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR, ray_constants.ENABLE_RAY_CLUSTER
    said = os.environ.get(name)
    os.environ[name], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        del os.environ[name]
        os.environ.update({} if said is None else {name: said})


@contextlib.contextmanager
def _sessions_of_their_own() -> Iterator[None]:
    """Start Ray's processes so that SIGTERM to this one's group (``timeout``, ``kill -- -PGID``) is not theirs.

    Linux ends them with their parent. Elsewhere Ray's reaper does, which knows a group only, so all stays as it is.
    """
    before = services.ConsolePopen

    def start(*words: Any, preexec_fn: Callable[[], None] | None = None, **options: Any) -> Any:
        def prepare() -> None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # held back in this process alone
            if preexec_fn is not None:
                preexec_fn()

        return before(*words, preexec_fn=prepare, start_new_session=True, **options)

    if sys.platform.startswith("linux"):
        services.ConsolePopen = start
    try:
        yield
    finally:
        services.ConsolePopen = before


@contextlib.contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Hold SIGTERM back, and keep its handler where there is one: Ray puts handlers of its own in its place."""
    before = signal.getsignal(signal.SIGTERM)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    held_back = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, held_back)


def start_ray(num_cpus: int | None) -> None:
    """Start a Ray of this process, quiet, where none is running already."""
    quiet()
    start_local(num_cpus)
