"""The Learner of algorithms that learn from unrolls."""

from __future__ import annotations

from torch import Tensor

from interreplay.learning.policy_gradient.impala import IMPALAUpdate, UnrollResult
from interreplay.rllib.algorithms.learner import RuleLearner
from interreplay.unrolls.unrolls import Unrolls


class UnrollLearner(RuleLearner):
    """Learner from `Unrolls`, by the `IMPALAUpdate` that the configuration makes."""

    _update_rule: IMPALAUpdate

    def update_from_unrolls(self, unrolls: Unrolls) -> UnrollResult:
        """Make one gradient update."""
        return self.learn_from(unrolls.to(self._device))

    def policy_of(self, unrolls: Unrolls) -> Tensor:
        """Return what the policy of now gives for the observations of unrolls, ``(T, B, F)``."""
        return self._update_rule.policy(unrolls.to(self._device))
