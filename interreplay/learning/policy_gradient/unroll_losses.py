"""A batch of unrolls under the current networks, and the losses of CLEAR and LASER for replayed unrolls."""

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
    """A batch of T steps of B environments; `interreplay.unrolls.unrolls.Unrolls` implements it.

    Attributes:
        obs: ``(T + 1, B, ...)``, or named parts of this shape.
        actions: ``(T, B, ...)``.
        rewards: ``(T, B)``.
        terminated: ``(T, B)`` bool.
        live: Whether each step belongs to an episode, ``(T, B)`` bool.
        policy: Outputs of the behavior policy ``(T, B, F)``.
        values: Values of the behavior policy's network ``(T, B)``.
        state: Recurrent state before the first step, by name ``(B, cells)``; empty for feedforward networks.
        fresh: Whether an unroll has not been learned from yet, ``(B,)`` bool.
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
    """Unrolls and the outputs of the current networks for them, with gradients.

    Attributes:
        unrolls: T steps of B environments.
        family: Family of the policies' distributions.
        pi: Outputs of the policy ``(T, B, F)``.
        values: V ``(T + 1, B)``.
        counted: 1.0 for live steps that are kept, 0.0 for others, ``(T, B)``.
        replayed: `counted` of replayed unrolls times their weights, 0.0 for fresh unrolls, ``(T, B)``.
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
        name: Name of its metric.
        weight: Factor of its sum in the loss.
    """

    name: str

    def __init__(self, weight: float):
        self.weight = float(weight)

    @abstractmethod
    def __call__(self, view: UnrollView) -> Tensor:
        """Return the sum over steps, not yet multiplied by the weight."""


class PolicyCloning(UnrollLoss):
    """CLEAR's policy cloning: Σ KL(µ ‖ π) over replayed steps (Rolnick et al. 2019, arXiv:1811.11682)."""

    name = "policy_cloning"

    def __call__(self, view: UnrollView) -> Tensor:
        return (view.family.kl(view.unrolls.policy, view.pi) * view.replayed).sum()


class ValueCloning(UnrollLoss):
    """CLEAR's value cloning: Σ (V − V_µ)² over replayed steps, with V_µ the value at the time of acting."""

    name = "value_cloning"

    def __call__(self, view: UnrollView) -> Tensor:
        return ((view.values[:-1] - view.unrolls.values).square() * view.replayed).sum()


class Relevance(ABC):
    """A rule for the steps that V-trace may learn from.

    Attributes:
        fresh_entropy: Whether only the entropy of fresh steps is rewarded.
    """

    fresh_entropy = False

    @abstractmethod
    def keep(self, family: Family, pi: Tensor, mu: Tensor) -> Tensor | None:
        """Return whether each step is learned from ``(T, B)``, bool; None for all steps.

        Args:
            family: Family of the policies' distributions.
            pi: Outputs of the current policy ``(T, B, F)``.
            mu: Outputs of the behavior policy ``(T, B, F)``.
        """


class AllSteps(Relevance):
    """Use all steps in the losses."""

    def keep(self, family: Family, pi: Tensor, mu: Tensor) -> Tensor | None:
        return None


class PolicyDistanceBound(Relevance):
    """LASER's rule: only steps with a behavior policy close to the current one have value, policy and cloning losses.

    A step counts if KL(π(·|s) ‖ π̃(·|s)) < b, where π̃ is the policy that V-trace evaluates, π̃ ∝ min(ρ̄ µ, π)
    ("implied"), or µ ("behavior"). Entropy is rewarded on fresh steps only.

    Args:
        bound: Bound b of the divergence.
        of: Policy to which π is compared: "implied" or "behavior".
        rho: Bound ρ̄ of V-trace's ratios.
    """

    fresh_entropy = True

    def __init__(self, bound: float = 0.3, of: str = "implied", rho: float = 1.0):
        if of not in ("implied", "behavior"):
            raise ValueError(f"of is {of!r}; expected 'implied' or 'behavior'")
        self.bound = bound
        self.of = of
        self.rho = rho

    @torch.no_grad()
    def keep(self, family: Family, pi: Tensor, mu: Tensor) -> Tensor:
        if self.of == "implied":
            return family.kl_to_implied(pi, mu, self.rho) < self.bound
        return family.kl(pi, mu) < self.bound
