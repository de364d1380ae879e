"""Ray as the host of this package: supported versions, their differences, a quick start, and Tune's search spaces."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import ray
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.connectors import connector_v2
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.env import env_runner_group
from ray.rllib.utils.torch_utils import convert_to_torch_tensor
from ray.tune.search.sample import Categorical, Domain

TESTED = ("2.54", "2.55", "2.56", "2.57", "2.58", "2.59", "2.60")
"""Minor versions of Ray that passed ``python -m benchmarks.versions``; docs/versions.md has the results."""
GRID = "grid_search"
_LOCK = threading.Lock()
_threads_without_ray = 0


def warn_if_untested(version: str = ray.__version__) -> None:
    """Warn if a version of Ray is newer than the tested ones."""
    if minor_version(version) > minor_version(TESTED[-1]):
        warnings.warn(
            f"Ray {version} is untested; tested versions: {', '.join(TESTED)}. "
            f'If training fails, run: pip install "ray[rllib]=={TESTED[-1]}.*"',
            stacklevel=2,
        )


def minor_version(version: str = ray.__version__) -> tuple[int, int]:
    """Return the major and the minor number of a version, for comparisons."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


@contextlib.contextmanager
def quick_start() -> Iterator[None]:
    """Let RLlib create its objects without two slow steps that take 1.5 s at every start.

    RLlib's seeding requests deterministic algorithms, and PyTorch imports its compiler to configure it. Each connector
    reads its constructor's arguments from ``inspect.stack``, which looks up the sources of all callers.
    """
    before = torch.use_deterministic_algorithms, connector_v2.inspect
    torch.use_deterministic_algorithms = _set_deterministic
    connector_v2.inspect = SimpleNamespace(stack=_callers, getargvalues=inspect.getargvalues)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms, connector_v2.inspect = before


def _set_deterministic(mode: bool, *, warn_only: bool = False) -> None:
    """Set the flag of ``torch.use_deterministic_algorithms`` without filling new tensors, 2 to 3 % of an update."""
    torch._C._set_deterministic_algorithms(mode, warn_only=warn_only)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


@contextlib.contextmanager
def without_ray(config: Any) -> Iterator[None]:
    """Do not start Ray, seven processes and 4 s of processor time, for an algorithm that does not need it.

    RLlib would only store its configuration and its weights in Ray, for runners in other processes. Threads can be
    inside this context at the same time; the last one that leaves it restores RLlib's module.
    """
    global _threads_without_ray
    if needs_ray(config) or ray.is_initialized():
        yield
        return
    with _LOCK:
        _threads_without_ray += 1
        env_runner_group.ray = SimpleNamespace(**{**vars(ray), "put": lambda value: None})
    try:
        yield
    finally:
        with _LOCK:
            _threads_without_ray -= 1
            if _threads_without_ray == 0:
                env_runner_group.ray = ray


def needs_ray(config: Any) -> bool:
    """Return whether an algorithm has processes or a GPU that Ray manages, or is RLlib's own."""
    processes = config.num_env_runners + config.evaluation_num_env_runners + config.num_learners
    return bool(processes or config.num_gpus_per_learner) or not issubclass(config.algo_class, HostedAlgorithm)


def _callers() -> list[Any]:
    """Return the part of ``inspect.stack()`` that connectors read: at 1, the frame that called the constructor."""
    return [None, SimpleNamespace(frame=sys._getframe(2))]


class HostedAlgorithm(Algorithm):
    """RLlib's algorithm with a quick start, and without Ray or a result folder if they are not needed."""

    def __init__(self, *args: Any, **options: Any):
        # Up to Ray 2.54, RLlib makes a folder in ~/ray_results unless it receives a logger, as it does from Tune.
        if minor_version() < (2, 55) and options.get("logger_creator") is None:
            from ray.tune.logger import NoopLogger

            options["logger_creator"] = functools.partial(NoopLogger, logdir=tempfile.gettempdir())
        super().__init__(*args, **options)

    def setup(self, config: Any) -> None:
        with quick_start(), without_ray(config):
            super().setup(config)

    def set_state(self, state: Any) -> None:
        with without_ray(self.config):
            super().set_state(state)

    def evaluate(self, *args: Any, **options: Any) -> Any:
        with without_ray(self.config):
            return super().evaluate(*args, **options)

    def _setup_logdir(self) -> None:
        """Create no folder: outside of Tune, nothing is written there. Ray 2.55 and newer call this."""
        if self._storage:
            super()._setup_logdir()
        else:
            self._logdir: Any = tempfile.gettempdir()


class ExactOptimizerStates(TorchLearner):
    """RLlib's learner, which restores the settings of optimizers exactly."""

    def _set_optimizer_state(self, state: Any) -> None:
        if minor_version() >= (2, 56):
            super()._set_optimizer_state(state)
            return
        # Up to Ray 2.55, RLlib restores Adam's betas and eps as float32 tensors, so a resumed run would differ.
        for name, saved in state.items():
            optimizer_state = saved["state"]
            tensors = convert_to_torch_tensor(optimizer_state["state"], device=self._device)
            self._named_optimizers[name].load_state_dict({**optimizer_state, "state": tensors})


def is_search_space(value: Any) -> bool:
    """Return whether Tune chooses this value for each trial."""
    return isinstance(value, Domain) or (isinstance(value, Mapping) and set(value) == {GRID})


def has_search_space(value: Any) -> bool:
    """Return whether Tune chooses this value, or a part of it, for each trial."""
    if is_search_space(value):
        return True
    if isinstance(value, Mapping):
        return any(map(has_search_space, value.values()))
    return isinstance(value, list | tuple) and any(map(has_search_space, value))


def choices(space: Any) -> list[Any]:
    """Return the values that a search space lists; [] for distributions and functions."""
    if isinstance(space, Categorical):
        return list(space.categories)
    if isinstance(space, Mapping) and isinstance(space[GRID], list | tuple):
        return list(space[GRID])
    return []
