"""Where classes that old checkpoints name are now: pickles name a class by its module, and modules have moved."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "interreplay.catalogue": "interreplay.buffer.catalogue",
    "interreplay.rllib.algorithm": "interreplay.rllib.algorithms.off_policy",
    "interreplay.rllib.config": "interreplay.rllib.algorithms.off_policy_config",
    "interreplay.rllib.ddpg": "interreplay.rllib.algorithms.ddpg",
    "interreplay.rllib.deterministic": "interreplay.rllib.algorithms.deterministic",
    "interreplay.rllib.episode_ids": "interreplay.rllib.stock.episode_ids",
    "interreplay.rllib.experiments": "interreplay.rllib.command.experiments",
    "interreplay.rllib.learner": "interreplay.rllib.algorithms.learner",
    "interreplay.rllib.module": "interreplay.rllib.algorithms.module",
    "interreplay.rllib.runner": "interreplay.rllib.env_runner.runner",
    "interreplay.rllib.sac": "interreplay.rllib.algorithms.sac",
    "interreplay.rllib.stock_configs": "interreplay.rllib.stock.configs",
    "interreplay.rllib.td3": "interreplay.rllib.algorithms.td3",
    "interreplay.rllib.tune_progress": "interreplay.rllib.tune.callbacks",
    "interreplay.rllib.tune_trial": "interreplay.rllib.tune.trainable",
    "interreplay.rllib.video": "interreplay.rllib.evaluation.video",
    "interreplay.sample": "interreplay.buffer.sample",
}
"""Modules with classes that pickles of commit d2c55bd and before may name, and where they lie since."""

RENAMED = {
    ("interreplay.rllib.algorithms.off_policy", "OffPolicy"): "OffPolicyAlgorithm",
    ("interreplay.rllib.env_runner.runner", "ColumnRunner"): "BatchEnvRunner",
}
"""Classes that pickles name by another name than they have today; their modules have both."""

_UNREAD = ("lr", "train_batch_size", "sample_timeout_s")
_SINCE = "normalize_observations"
"""A setting of all our algorithms since they read those above, which had RLlib's defaults and no effect before."""


def settings_of_before(state: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the settings of a configuration without those that had no effect when it was saved.

    Args:
        state: The settings by name.
        known: Names of those that its class has today.
    """
    before = _SINCE in known and _SINCE not in state
    return {name: value for name, value in state.items() if not (before and name in _UNREAD)}


def current(module: str, name: str) -> tuple[str, str]:
    """Return the module and the name that a class has today."""
    module = MOVED.get(module, module)
    return module, RENAMED.get((module, name), name)


class _Finder(MetaPathFinder, Loader):
    """Finds modules under the names that they had; each looks up what it is asked for where it is now."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        def lookup(name: str) -> Any:
            return getattr(importlib.import_module(MOVED[module.__name__]), name)

        module.__getattr__ = lookup  # type: ignore[method-assign]


def find_moved_modules() -> None:
    """Let everybody who unpickles, as RLlib and Ray Tune do, find the modules under the names that they had."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
