"""What an update sees of a batch of unrolls, and the losses that are added to V-trace's on replayed ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from interreplay.learning.networks.distributions import Family
from interreplay.transitions import Observation


class UnrollsLike(Protocol):
    """What an update learns from: T steps of B environments; `interreplay.unrolls.unrolls.Unrolls` is one.

    Attributes:
        obs: ``(T + 1, B, ...)``, or named parts of such.
        actions: ``(T, B, ...)``.
        rewards: ``(T, B)``.
        terminated: ``(T, B)`` bool.
        live: Whether steps are steps of an episode, ``(T, B)`` bool.
        policy: What the policy gave that acted, ``(T, B, F)``.
        values: Its values, ``(T, B)``.
        state: State of a network with memory before the first step, by name ``(B, cells)``; empty without one.
        fresh: Whether unrolls have not been learned from, ``(B,)`` bool.
        weights: Importance weights ``(B,)``.
        steps: T.
        size: B.
    """

    @property
    def obs(self) -> Observation: ...
    @property
    def actions(self) -> Tensor: ...
    @property
    def rewards(self) -> Tensor: ...
    @property
    def terminated(self) -> Tensor: ...
    @property
    def live(self) -> Tensor: ...
    @property
    def policy(self) -> Tensor: ...
    @property
    def values(self) -> Tensor: ...
    @property
    def state(self) -> Mapping[str, Tensor]: ...
    @property
    def fresh(self) -> Tensor: ...
    @property
    def weights(self) -> Tensor: ...
    @property
    def steps(self) -> int: ...
    @property
    def size(self) -> int: ...


@dataclass(frozen=True, slots=True)
class UnrollView:
    """Unrolls, and what the networks of now make of them, with gradients.

    Attributes:
        unrolls: T steps of B environments.
        family: Of the policies.
        pi: What the policy gives, ``(T, B, F)``.
        values: V ``(T + 1, B)``.
        counted: Steps that losses are of ``(T, B)``, float: 1 for live ones that are kept, 0 for others.
        replayed: The same of replayed unrolls alone ``(T, B)``.
    """

    unrolls: UnrollsLike
    family: Family
    pi: Tensor
    values: Tensor
    counted: Tensor
    replayed: Tensor


class UnrollLoss(ABC):
    """A loss that is added to V-trace's.

    Attributes:
        name: Of its metric.
        weight: What its sum is multiplied by.
    """

    name: str

    def __init__(self, weight: float):
        self.weight = float(weight)

    @abstractmethod
    def __call__(self, view: UnrollView) -> Tensor:
        """Return the sum over steps, not yet multiplied by the weight."""


class PolicyCloning(UnrollLoss):
    """CLEAR's first: Σ KL(µ ‖ π) over replayed steps (Rolnick et al. 2019, arXiv:1811.11682)."""

    name = "policy_cloning"

    def __call__(self, view: UnrollView) -> Tensor:
        return (view.family.kl(view.unrolls.policy, view.pi) * view.replayed).sum()


class ValueCloning(UnrollLoss):
    """CLEAR's second: Σ (V − V_µ)² over replayed steps, V_µ being the value when it acted."""

    name = "value_cloning"

    def __call__(self, view: UnrollView) -> Tensor:
        return ((view.values[:-1] - view.unrolls.values).square() * view.replayed).sum()


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
