"""Sources that updates learn from: stored rows, recorded rows, learned models, and mixes of them."""

from interreplay.experience.mix import Mix
from interreplay.experience.model_based import ModelBased
from interreplay.experience.offline import Offline
from interreplay.experience.recipes import make_source, resolve_source
from interreplay.experience.replay import Replay
from interreplay.experience.source import RowSource
from interreplay.selection.shares import Shares

__all__ = [
    "Mix",
    "ModelBased",
    "Offline",
    "Replay",
    "RowSource",
    "Shares",
    "make_source",
    "resolve_source",
]
