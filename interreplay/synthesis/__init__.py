"""Synthesis: creates the rows of a batch from anchors and neighbors."""

from interreplay.synthesis.adaptive import AdaptiveMixup
from interreplay.synthesis.base import Identity, Synthesized, Synthesizer
from interreplay.synthesis.mixup import Blend, Mixup, NearestOutcome
from interreplay.synthesis.noise import Noise
from interreplay.synthesis.relabel import Relabel
from interreplay.synthesis.state_augmentation import StateAugmentation

__all__ = [
    "AdaptiveMixup",
    "Blend",
    "Identity",
    "Mixup",
    "NearestOutcome",
    "Noise",
    "Relabel",
    "StateAugmentation",
    "Synthesized",
    "Synthesizer",
]
