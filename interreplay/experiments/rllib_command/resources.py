"""CPUs and GPUs that Ray offers and that a trial requests: a trial that requests more would wait forever."""

from __future__ import annotations

from typing import NamedTuple

import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from interreplay.errors import UsageError
from interreplay.experiments.process.machine import counted, own_cpus, own_gpus


class Room(NamedTuple):
    """CPUs and GPUs."""

    cpus: float
    gpus: float


def room(num_cpus: int | None) -> Room:
    """Return the CPUs and GPUs of Ray, or of this machine if Ray is not started yet.

    Args:
        num_cpus: Value of ``--num_cpus``; None for the CPUs that this process may use.
    """
    if ray.is_initialized():
        found = ray.cluster_resources()
        return Room(found.get("CPU", 0.0), found.get("GPU", 0.0))
    return Room(num_cpus or own_cpus(), own_gpus())


def request(config: AlgorithmConfig) -> Room:
    """Return the request of one trial, including its env runners and learners."""
    asked = config.algo_class.default_resource_request(config.copy(copy_frozen=False)).required_resources
    return Room(asked.get("CPU", 0.0), asked.get("GPU", 0.0))


def check_room(config: AlgorithmConfig, there: Room, share: bool = False) -> float:
    """Return the CPUs that one trial requests; reject a configuration that requests more than Ray offers.

    Args:
        config: A configuration without search spaces.
        there: CPUs and GPUs of Ray.
        share: Whether processes may share CPUs if there are fewer than requested.

    Raises:
        UsageError: With the request, what is available, and how to request less.
    """
    asked = request(config)
    name = config.algo_class.__name__
    if asked.gpus > there.gpus:
        raise UsageError(
            f"{name} requests {counted(asked.gpus, 'GPU')}, available: {counted(there.gpus, 'GPU')}; "
            "take num_gpus_per_learner and the like out of its config"
        )
    if asked.cpus > there.cpus and not share:
        raise UsageError(
            f"{name} requests {counted(asked.cpus, 'CPU')}, available: {counted(there.cpus, 'CPU')}; let its processes "
            f"share these with --num_cpus {asked.cpus:.0f}, or have fewer with --config '{{num_env_runners: 0}}'"
        )
    return asked.cpus
