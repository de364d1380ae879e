"""Synthesis: what a batch is made of."""

from interreplay.synthesis.adaptive import AdaptiveMixup
from interreplay.synthesis.base import Synthesized, Synthesizer
from interreplay.synthesis.blend import Blend
from interreplay.synthesis.keep import Identity
from interreplay.synthesis.mixup import Mixup
from interreplay.synthesis.nearest_outcome import NearestOutcome
from interreplay.synthesis.noise import Noise
from interreplay.synthesis.relabel import Relabel
from interreplay.synthesis.state_augmentation import StateAugmentation

Keep = Identity  # its name before

__all__ = [
    "AdaptiveMixup",
    "Blend",
    "Identity",
    "Keep",
    "Mixup",
    "NearestOutcome",
    "Noise",
    "Relabel",
    "StateAugmentation",
    "Synthesized",
    "Synthesizer",
]
