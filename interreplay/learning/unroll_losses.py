"""What an update sees of a batch of unrolls, and the losses that are added to V-trace's on replayed ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from interreplay.learning.distributions import Family

if TYPE_CHECKING:
    from interreplay.unrolls.unrolls import Unrolls


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

    unrolls: Unrolls
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
