"""V-trace: values and advantages of one policy from unrolls of another (Espeholt et al. 2018, arXiv:1802.01561)."""

from __future__ import annotations

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
    """Return V-trace's targets for the values, and the advantages for the policy; no gradient goes through either.

    With π/µ = exp(log_ratios), ρ_t = min(ρ̄, π/µ), c_t = λ·min(c̄, π/µ) and ρ'_t = min(ρ̄', π/µ), all 0 where a step
    is not `live`:

    * δ_t = ρ_t (r_t + γ_t V_{t+1} − V_t),
    * a_t = keep_t (δ_t + γ_t c_t a_{t+1}) and a_T = 0,
    * targets: v_t = V_t + a_t, so that v_T = V_T,
    * advantages: A_t = keep_t ρ'_t (r_t + γ_t v_{t+1} − V_t).

    A step that is not live follows the end of an episode and only resets: its value is its own target. So a step that
    was truncated is bootstrapped from V_{t+1}, the value of the observation that the episode ended with, and a
    terminated one from nothing, by its discount of 0.

    Args:
        log_ratios: log π(a_t|s_t) − log µ(a_t|s_t), ``(T, B)``.
        values: V of the observations, the last one after the unroll included, ``(T + 1, B)``.
        rewards: ``(T, B)``.
        discounts: γ_t, 0 where a step terminated its episode, ``(T, B)``.
        live: Whether steps are steps of an episode, ``(T, B)`` bool; None for all of them.
        keep: Whether, or to which share, steps count, ``(T, B)``; None for all of them (Schmitt et al. 2020, LASER).
        rho: ρ̄, bound of the ratios in δ.
        c: c̄, bound of the ratios that later errors are multiplied by.
        pg_rho: ρ̄', bound of the ratios in the advantages.
        lam: λ.

    Returns:
        Targets ``(T + 1, B)`` and advantages ``(T, B)``, on the device of `values` and of their type.

    Raises:
        ValueError: Shapes do not fit each other.
    """
    _check(values, log_ratios=log_ratios, rewards=rewards, discounts=discounts, live=live, keep=keep)
    ratios = torch.exp(log_ratios if live is None else log_ratios.masked_fill(~live.bool(), float("-inf")))
    clipped = {bound: _weighted(ratios.clamp(max=bound), keep) for bound in {rho, c, pg_rho}}
    # Filled with the errors, from which sums and at last targets come.
    targets = torch.zeros_like(values)
    torch.mul(clipped[rho], torch.addcmul(rewards, discounts, values[1:]).sub_(values[:-1]), out=targets[:-1])
    _accumulate(targets, discounts * clipped[c] if lam == 1.0 else discounts * clipped[c] * lam)
    targets += values
    advantages = torch.addcmul(rewards, discounts, targets[1:]).sub_(values[:-1])
    return targets, advantages.mul_(clipped[pg_rho])


def _weighted(ratios: Tensor, keep: Tensor | None) -> Tensor:
    if keep is None:
        return ratios
    return ratios.masked_fill(~keep, 0.0) if keep.dtype == torch.bool else ratios * keep


def _accumulate(errors: Tensor, factors: Tensor) -> None:
    """Add to each error ``(T + 1, B)`` its factor times the sum that follows it, in place.

    Numpy's calls take a third of the time of torch's on a processor.
    """
    on_processor = errors.device.type == "cpu"
    rows, by = (list(x.numpy() if on_processor else x) for x in (errors, factors))
    for t in range(len(by) - 2, -1, -1):
        rows[t] += by[t] * rows[t + 1]


def _check(values: Tensor, **columns: Tensor | None) -> None:
    """Refuse columns that are not of T steps of as many unrolls as the values ``(T + 1, B)``."""
    expected = (len(values) - 1, *values.shape[1:])
    for name, column in columns.items():
        if column is not None and tuple(column.shape) != expected:
            raise ValueError(
                f"{name} has shape {tuple(column.shape)}; expected {expected}, values are {tuple(values.shape)}"
            )
