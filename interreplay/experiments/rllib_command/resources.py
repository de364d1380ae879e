"""What an experiment asks of Ray and what there is: a trial that asks for more would wait for ever."""

from __future__ import annotations

from typing import NamedTuple

import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from interreplay.errors import UsageError
from interreplay.experiments.process.machine import counted, own_cpus, own_gpus


class Room(NamedTuple):
    """What Ray hands out: CPUs and GPUs."""

    cpus: float
    gpus: float


def room(num_cpus: int | None) -> Room:
    """Return what Ray hands out, or would if it were started now.

    Args:
        num_cpus: What ``--num_cpus`` says; None for the CPUs that this process may use.
    """
    if ray.is_initialized():
        found = ray.cluster_resources()
        return Room(found.get("CPU", 0.0), found.get("GPU", 0.0))
    return Room(num_cpus or own_cpus(), own_gpus())


def request(config: AlgorithmConfig) -> Room:
    """Return what one trial asks for, its env runners and learners included."""
    asked = config.algo_class.default_resource_request(config.copy(copy_frozen=False)).required_resources
    return Room(asked.get("CPU", 0.0), asked.get("GPU", 0.0))


def check_room(config: AlgorithmConfig, there: Room, share: bool = False) -> float:
    """Return the CPUs that Ray must hand out for one trial, or refuse a configuration that requests more than there is.

    Args:
        config: Without open choices.
        there: What Ray hands out.
        share: Whether processes may share CPUs where there are fewer than one trial requests.

    Raises:
        UsageError: Naming what is requested, what there is, and how to request less.
    """
    asked, name = request(config), config.algo_class.__name__
    if asked.gpus > there.gpus:
        raise UsageError(
            f"{name} asks for {counted(asked.gpus, 'GPU')}, available: {counted(there.gpus, 'GPU')}; "
            "take num_gpus_per_learner and the like out of its config"
        )
    if asked.cpus > there.cpus and not share:
        raise UsageError(
            f"{name} asks for {counted(asked.cpus, 'CPU')}, available: {counted(there.cpus, 'CPU')}; let its processes "
            f"share these with --num_cpus {asked.cpus:.0f}, or have fewer with --config '{{num_env_runners: 0}}'"
        )
    return asked.cpus
