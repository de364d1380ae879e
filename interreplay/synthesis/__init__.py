"""Synthesis: what a batch is made of."""

from interreplay.synthesis.base import Synthesizer
from interreplay.synthesis.keep import Keep
from interreplay.synthesis.mixup import Mixup

__all__ = ["Keep", "Mixup", "Synthesizer"]
