"""V-trace: off-policy values and advantages from unrolls (Espeholt et al. 2018, arXiv:1802.01561)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


@torch.no_grad()
def vtrace(
    log_ratios: Tensor,
    values: Tensor,
    rewards: Tensor,
    discounts: Tensor,
    live: Tensor | None = None,
    keep: Tensor | None = None,
    rho: float = 1.0,
    c: float = 1.0,
    pg_rho: float = 1.0,
    lam: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return V-trace's targets of the values and advantages of the policy, both without gradients.

    With π/µ = exp(log_ratios), ρ_t = min(ρ̄, π/µ), c_t = λ·min(c̄, π/µ) and ρ'_t = min(ρ̄', π/µ), all 0 for steps
    that are not `live`:

    * δ_t = ρ_t (r_t + γ_t V_{t+1} − V_t),
    * a_t = keep_t (δ_t + γ_t c_t a_{t+1}) and a_T = 0,
    * targets: v_t = V_t + a_t, so that v_T = V_T,
    * advantages: A_t = keep_t ρ'_t (r_t + γ_t v_{t+1} − V_t).

    A step that is not live follows the end of an episode and only resets the environment; its value is its own target.
    A truncated step is therefore bootstrapped from V_{t+1}, the value of the last observation of the episode, and a
    terminated step is not bootstrapped, as its discount is 0.

    Args:
        log_ratios: log π(a_t|s_t) − log µ(a_t|s_t), ``(T, B)``.
        values: V of all observations ``(T + 1, B)``, including the one after the last step.
        rewards: ``(T, B)``.
        discounts: γ_t, 0 where a step terminated its episode, ``(T, B)``.
        live: Whether each step belongs to an episode, ``(T, B)`` bool; None for all steps.
        keep: Whether, or with which weight, each step counts ``(T, B)``; None for all steps (LASER).
        rho: ρ̄, bound of the ratios in δ.
        c: c̄, bound of the ratios by which later errors are multiplied.
        pg_rho: ρ̄', bound of the ratios in the advantages.
        lam: λ.

    Returns:
        Targets ``(T + 1, B)`` and advantages ``(T, B)``, of the device and type of `values`.

    Raises:
        ValueError: Shapes do not match.
    """
    _check(values, log_ratios=log_ratios, rewards=rewards, discounts=discounts, live=live, keep=keep)
    if live is not None:
        log_ratios = log_ratios.masked_fill(~live.bool(), float("-inf"))
    ratios = torch.exp(log_ratios)
    if keep is not None and keep.dtype == torch.bool:
        ratios = ratios.masked_fill(~keep, 0.0)
        keep = None
    clipped = {}
    for bound in {rho, c, pg_rho}:
        clipped[bound] = ratios.clamp(max=bound)
        if keep is not None:
            clipped[bound] *= keep
    # First the errors δ, then their sums a, finally the targets.
    targets = torch.zeros_like(values)
    torch.mul(clipped[rho], torch.addcmul(rewards, discounts, values[1:]).sub_(values[:-1]), out=targets[:-1])
    factors = discounts * clipped[c]
    if lam != 1.0:
        factors = factors * lam
    _accumulate(targets, factors)
    targets += values
    advantages = torch.addcmul(rewards, discounts, targets[1:]).sub_(values[:-1])
    return targets, advantages.mul_(clipped[pg_rho])


def _accumulate(errors: Tensor, factors: Tensor) -> None:
    """Add to each error ``(T + 1, B)`` the factor times a_{t+1}, in place; numpy takes a third of torch's time."""
    rows: Any = errors
    by: Any = factors
    if errors.device.type == "cpu":
        rows = errors.numpy()
        by = factors.numpy()
    rows = list(rows)
    by = list(by)
    for t in range(len(by) - 2, -1, -1):
        rows[t] += by[t] * rows[t + 1]


def _check(values: Tensor, **columns: Tensor | None) -> None:
    """Reject columns that do not have shape ``(T, B)`` for values ``(T + 1, B)``."""
    expected = (len(values) - 1, *values.shape[1:])
    for name, column in columns.items():
        if column is not None and tuple(column.shape) != expected:
            raise ValueError(
                f"{name} has shape {tuple(column.shape)}; expected {expected}, values are {tuple(values.shape)}"
            )
