"""TD3+BC: an actor that stays near the actions of its data (Fujimoto & Gu 2021, arXiv:2106.06860)."""

from __future__ import annotations

from torch import Tensor

from interreplay.learning.update import weighted_mean


def value_scale(values: Tensor, alpha: float) -> Tensor:
    """Return λ = α / mean|Q|, without a gradient, by which the values ``(n,)`` count beside the distance of actions."""
    return alpha / values.detach().abs().mean().clamp(min=1e-8)


def cloning_loss(values: Tensor, actions: Tensor, taken: Tensor, weights: Tensor | None, alpha: float) -> Tensor:
    """Return the actor's loss: −λ·mean(v·Q(s, π(s))) + mean(v·(π(s) − a)²), the squares means over an action's numbers.

    Args:
        values: Q(s, π(s)) ``(n,)``.
        actions: π(s) ``(n, actions)``, in [−1, 1].
        taken: a ``(n, actions)``, those of the rows.
        weights: v ``(n,)``, or None for equal ones.
        alpha: α.
    """
    distances = (actions - taken).square().mean(dim=1)
    return weighted_mean(distances, weights) - value_scale(values, alpha) * weighted_mean(values, weights)


def distance_slopes(actions: Tensor, taken: Tensor, share: Tensor | float) -> Tensor:
    """Return the gradient of Σ share·(π(s) − a)² by the actions ``(n, actions)``.

    Args:
        actions: As in `cloning_loss`.
        taken: Likewise.
        share: v/n of each row ``(n,)``, or one of all.
    """
    share = share.unsqueeze(-1) if isinstance(share, Tensor) else share
    return (actions - taken) * (2.0 / actions.shape[1]) * share
