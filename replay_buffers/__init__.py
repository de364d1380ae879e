"""The catalogue: one file per published method, holding its paper, its defaults and its composition."""

from replay_buffers.nmer import NMER
from replay_buffers.per import PER
from replay_buffers.uniform import Uniform

__all__ = ["NMER", "PER", "Uniform"]
