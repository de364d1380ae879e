"""Algorithms by the names of `rllib train --run`: ours and RLlib's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.registry import ALGORITHMS as STOCK_ALGORITHMS
from ray.rllib.algorithms.sac import SACConfig
from ray.tune.registry import ENV_CREATOR, _global_registry

from interreplay.environments.lookup import find_environment
from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.training.build import new_config
from interreplay.learning.algorithms_table import ALGORITHMS, check_actions, is_algorithm
from interreplay.rllib.stock.configs import StockDQNConfig, StockSACConfig

WITH_OUR_BUFFERS = {DQNConfig: StockDQNConfig, SACConfig: StockSACConfig}
STOCK = "-stock"


def config_for(
    run: str, env: str, report: Callable[[str], object], arguments: Mapping[str, Any] | None = None
) -> AlgorithmConfig:
    """Return the default configuration of an algorithm for an environment.

    Names such as ``SAC`` select our algorithms, ``SAC-stock`` selects RLlib's.

    Args:
        run: A name, such as ``"SAC"``, ``"PPO"`` or ``"SAC-stock"``.
        env: A Gymnasium id, retired versions included, or a name registered with Ray Tune.
        report: Receives a line about the replacement of a retired version.
        arguments: Arguments of the environment, if they are known.

    Raises:
        UsageError: The algorithm or environment is unknown; the message suggests the nearest name.
    """
    name = env
    space = None  # unknown before the environment is made
    if not _global_registry.contains(ENV_CREATOR, env):
        found = find_environment(env, arguments or {})
        name = found.name
        space = found.action_space
        if found.note:
            report(found.note)
    stock = run.removesuffix(STOCK)
    if is_algorithm(run):
        if space is not None:
            check_actions(run, name, space, "--run")
        config = new_config(ALGORITHMS[run].config)
    elif stock in STOCK_ALGORITHMS:
        config = STOCK_ALGORITHMS[stock]()[1]
    else:
        raise UsageError(f"unknown algorithm {run!r}; {accepted_names(run, names())}")
    return config.environment(name)


def names() -> list[str]:
    """Return the names that `config_for` accepts, ours first."""
    both = [name for name in ALGORITHMS if name in STOCK_ALGORITHMS]
    only_stock = sorted(STOCK_ALGORITHMS.keys() - ALGORITHMS.keys())
    return [*ALGORITHMS, *only_stock, *(name + STOCK for name in both)]
