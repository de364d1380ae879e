"""What updates learn from: stored rows or a mix of several sources, and when a batch of them is due."""

from interreplay.experience.mix import Mix
from interreplay.experience.model_based import ModelBased
from interreplay.experience.offline import Offline
from interreplay.experience.recipes import make_source, resolve_source
from interreplay.experience.replay import Replay
from interreplay.experience.source import ExperienceSource, RowSource
from interreplay.selection.shares import Shares

__all__ = [
    "ExperienceSource",
    "Mix",
    "ModelBased",
    "Offline",
    "Replay",
    "RowSource",
    "Shares",
    "make_source",
    "resolve_source",
]
