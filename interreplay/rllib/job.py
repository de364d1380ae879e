"""From the command line's settings to an algorithm that is ready to train."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import secrets
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import ray
import torch
from ray._private import ray_constants

from interreplay.commandline import UsageError
from interreplay.commandline.replay_flags import replay_arguments
from interreplay.commandline.trainer_flags import TRAINER_DEFAULTS
from interreplay.learning.exploration import make_exploration
from interreplay.rllib.filming import EvaluationFilm

OBJECT_STORE = 256 * 1024**2
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "PYTHONWARNINGS": "ignore",
}


def quiet() -> None:
    """Keeps back what Ray and its parts say of themselves."""
    os.environ.update(quieting())
    warnings.simplefilter("ignore")
    logging.getLogger("ray").setLevel(logging.ERROR)


def quieting() -> dict[str, str]:
    """The environment variables that do so, as they are set already or by default."""
    return {name: os.environ.get(name, value) for name, value in _QUIET.items()}


def prepare_host(threads: int, workers: int) -> None:
    """Sets the CPU threads and starts Ray, which RLlib needs also without other processes, with its chatter kept back.

    Args:
        threads: CPU threads of the learner.
        workers: Processes that sample.
    """
    quiet()
    os.environ.update(thread_limits(threads))
    torch.set_num_threads(threads)
    start_local(workers + 1)


def thread_limits(threads: int) -> dict[str, str]:
    """The environment variables from which libraries take how many threads they may start."""
    return dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))


def start_local(cpus: int | None, gpus: int | None = None) -> None:
    """A Ray of this process, unless there is one already: on 127.0.0.1, without a dashboard, with a token of its own.

    Args:
        cpus: CPUs that it hands out; None for all of the machine.
        gpus: GPUs likewise; None for those that it finds.
    """
    if not ray.is_initialized():
        if "RAY_AUTH_TOKEN" not in os.environ and "RAY_AUTH_TOKEN_PATH" not in os.environ:
            # Ray asks for a token by default, one file for all its clusters that two first starts would both write.
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        # What passes through the object store is small: weights, configurations and fragments of episodes.
        with _loopback():
            ray.init(
                address="local",
                num_cpus=cpus,
                num_gpus=gpus,
                object_store_memory=OBJECT_STORE,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    logging.getLogger("ray").setLevel(logging.ERROR)


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Lets a Ray that is started meanwhile listen on 127.0.0.1, as Ray does by itself on Windows and macOS."""
    name, before = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR, ray_constants.ENABLE_RAY_CLUSTER
    said = os.environ.get(name)
    os.environ[name], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        del os.environ[name]
        os.environ.update({} if said is None else {name: said})


def build(config_name: str, settings: SimpleNamespace) -> Any:
    """The algorithm, ready to train, with the ``film`` of its evaluations, or None.

    Args:
        config_name: The name of a configuration in `interreplay.rllib`.
        settings: What ``argument_parser.settings_for`` returned.

    Raises:
        UsageError: The environment, the replay method and the algorithm do not fit each other.
    """
    try:
        config = configure(config_name, settings)
        film = EvaluationFilm(config) if settings.video_to_tensorboard else None
        algorithm = config.build_algo()
        algorithm.film = film
        return algorithm
    except ValueError as error:
        raise UsageError(str(error)) from error


def trainer_settings(settings: SimpleNamespace) -> dict[str, Any]:
    """The settings that not every algorithm has, or not with the same default, as its configuration takes them."""
    own = {name: getattr(settings, name) for name in TRAINER_DEFAULTS[settings.trainer] if name != "train_batch_size"}
    if own.get("huber_delta") == "none":
        own["huber_delta"] = None
    if "exploration" in own:
        kind, sigma, theta = (own.pop(f"exploration{part}") for part in ("", "_sigma", "_theta"))
        named = {"type": kind, "sigma": sigma} | ({} if kind == "Gaussian" else {"theta": theta})
        own["exploration"] = make_exploration(named)
    return own


def configure(config_name: str, settings: SimpleNamespace) -> Any:
    """RLlib's configuration of a job; arguments as in `build`."""
    s = settings
    config = getattr(importlib.import_module("interreplay.rllib"), config_name)()
    config.environment(s.env, env_config={"max_episode_steps": s.horizon} if s.horizon else {})
    config.replay(s.buffer, capacity=s.buffer_size, **replay_arguments(s))
    config.training(
        **trainer_settings(s),
        gamma=s.gamma,
        n_step=s.n_step,
        train_batch_size_per_learner=s.train_batch_size,
        updates_per_step=s.round_robin_weights,
        steps_per_iteration=s.steps_per_iteration,
        anneal_steps=s.total_env_steps,
        on_manifold_rows=s.on_manifold_rows,
        matrix_dtype=s.matrix_dtype,
        num_steps_sampled_before_learning_starts=s.learning_starts,
    )
    config.env_runners(
        num_env_runners=s.num_workers,
        num_envs_per_env_runner=s.num_envs_per_worker,
        rollout_fragment_length=s.rollout_fragment_length,
    )
    # A runner that fails ends the job with its traceback; RLlib would go on without saying so.
    config.fault_tolerance(restart_failed_env_runners=False)
    config.evaluation(
        evaluation_interval=s.evaluation_interval or None,
        evaluation_duration=s.evaluation_num_episodes,
        evaluation_duration_unit="episodes",
    )
    config.learners(num_gpus_per_learner=int(s.device == "cuda"))
    return config.debugging(seed=s.seed, log_level="ERROR")
