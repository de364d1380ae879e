"""Which steps of an unroll still tell something about the policy of now (Schmitt et al. 2020, arXiv:1909.11583)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from interreplay.learning.distributions import Family


class Relevance(ABC):
    """A rule for the steps that V-trace may learn from.

    Attributes:
        fresh_entropy: Whether the entropy of fresh steps alone is rewarded.
    """

    fresh_entropy = False

    @abstractmethod
    def keep(self, family: Family, pi: Tensor, mu: Tensor) -> Tensor | None:
        """Return which steps are learned from ``(T, B)`` bool, None for all.

        Args:
            family: Of the policies.
            pi: What the policy of now gives, ``(T, B, F)``.
            mu: What the policy gave that acted, ``(T, B, F)``.
        """


class Everywhere(Relevance):
    """All steps count."""

    def keep(self, family: Family, pi: Tensor, mu: Tensor) -> Tensor | None:
        return None


class Within(Relevance):
    """LASER: steps count whose policies are near each other; the rest give no value, policy or cloning loss.

    A step counts where KL(π(·|s) ‖ π̃(·|s)) < b, π̃ ∝ min(ρ̄ µ, π) being the policy that V-trace's values are of
    ("implied"), or µ itself ("behavior"). Entropy is rewarded on fresh steps alone.

    Args:
        bound: b.
        of: "implied" or "behavior".
        rho: ρ̄.
    """

    fresh_entropy = True

    def __init__(self, bound: float = 0.3, of: str = "implied", rho: float = 1.0):
        if of not in ("implied", "behavior"):
            raise ValueError(f"of is {of!r}; expected 'implied' or 'behavior'")
        self.bound, self.of, self.rho = bound, of, rho

    @torch.no_grad()
    def keep(self, family: Family, pi: Tensor, mu: Tensor) -> Tensor:
        distance = family.kl_to_implied(pi, mu, self.rho) if self.of == "implied" else family.kl(pi, mu)
        return distance < self.bound
