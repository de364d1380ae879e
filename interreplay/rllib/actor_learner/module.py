"""The RLModule of algorithms that learn from unrolls."""

from __future__ import annotations

from interreplay.learning.architectures import ARCHITECTURES
from interreplay.rllib.algorithms.module import OffPolicyModule


class ActorLearnerModule(OffPolicyModule):
    """A policy and its value."""

    architecture = ARCHITECTURES["IMPALA"]
