"""Composable replay buffers: select anchors, gather their neighbors, synthesize a batch, learn from it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interreplay.acting.stored_policy import load_policy
    from interreplay.acting.trained_policy import TrainedPolicy
    from interreplay.buffer import ReplayBuffer, Sample
    from interreplay.errors import CheckpointError, InterreplayError, NonFiniteError
    from interreplay.experience.mix import Mix
    from interreplay.experience.model_based import ModelBased
    from interreplay.experience.offline import Offline
    from interreplay.experiments.training.algorithm_log import log_to
    from interreplay.storage.ring import Storage
    from interreplay.transitions import Transitions

__all__ = [
    "CheckpointError",
    "InterreplayError",
    "Mix",
    "ModelBased",
    "NonFiniteError",
    "Offline",
    "ReplayBuffer",
    "Sample",
    "Storage",
    "TrainedPolicy",
    "Transitions",
    "load_policy",
    "log_to",
]
__version__ = "0.3.0"

_MODULES = {
    "CheckpointError": "errors",
    "InterreplayError": "errors",
    "Mix": "experience.mix",
    "ModelBased": "experience.model_based",
    "NonFiniteError": "errors",
    "Offline": "experience.offline",
    "ReplayBuffer": "buffer",
    "Sample": "buffer.sample",
    "Storage": "storage.ring",
    "TrainedPolicy": "acting.trained_policy",
    "Transitions": "transitions",
    "load_policy": "acting.stored_policy",
    "log_to": "experiments.training.algorithm_log",
}


def __getattr__(name: str) -> Any:
    """Import attributes on first use, so that `--help` and checks do not load PyTorch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
