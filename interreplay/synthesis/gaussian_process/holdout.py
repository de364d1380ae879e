"""Prediction errors on held-out rows, of the Gaussian processes and of the linear blend."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.synthesis.gaussian_process.fit import Schedule, fit
from interreplay.synthesis.gaussian_process.neighborhoods import Preparation
from interreplay.synthesis.gaussian_process.processes import Form, posterior

EVERY = 500
"""Number of batches from one evaluation to the next."""


def evaluate(
    form: Form, schedule: Schedule, preparation: Preparation, z: Tensor, y: Tensor, actions: int, split: float
) -> dict[str, Tensor]:
    """Predict the last rows of every neighborhood from the others.

    Return errors per target [r; Δs] ``(T,)`` in the targets' own units: root mean squared errors ``rmse_gp``,
    ``rmse_blend`` and ``rmse_mean`` (of the rows kept), and mean negative log densities in nats ``nll_gp`` and
    ``nll_blend``.

    The comparison favors the blend: it uses the point nearest to the row on any segment from the anchor to a kept row,
    and the standard deviation, relative to the neighborhood's, that fits its errors on this batch.

    Args:
        form: Kernel and mean.
        schedule: Hyperparameters; they do not change.
        preparation: Scaling.
        z: Features ``(n, m, d)``, the anchor first, the others in random order.
        y: Targets ``(n, m, T)``.
        actions: Number of features that are actions.
        split: Share of the rows to hold out: at least one, at most m − 2 of them.
    """
    m = z.shape[1]
    kept = max(2, m - max(1, round(split * (m - 1))))
    batch = preparation(z[:, :kept], y[:, :kept])
    form = form.over(batch.x.shape[2], actions)
    queries = batch.place((z[:, kept:] - z[:, :1]).to(batch.x))
    truth = y[:, kept:].to(batch.x)
    hyper = schedule.get_current(form, batch)
    if schedule.kind == "local":
        hyper = fit(schedule.how, form, hyper, batch.x, batch.y, batch.spread).hyper
    found = posterior(form, hyper, batch.x, y=batch.y, queries=queries)
    width = batch.targets.width
    good = ~found.failed
    predicted = {
        "gp": batch.targets.undo(found.mean),
        "blend": batch.targets.undo(nearest_blend(batch.x, batch.y, queries)),
        "mean": batch.targets.center,
    }
    error = {name: (value - truth)[good].double() for name, value in predicted.items()}
    variance = ((found.variance + found.noise) * width.square())[good].double()
    share = (error["blend"] / width[good]).square().mean(dim=(0, 1), keepdim=True)
    blend_variance = (share * width[good].double().square()).expand_as(variance)
    scores = {f"rmse_{name}": value.square().mean(dim=(0, 1)).sqrt() for name, value in error.items()}
    return scores | {"nll_gp": _nll(error["gp"], variance), "nll_blend": _nll(error["blend"], blend_variance)}


def summarize(scores: dict[str, Tensor]) -> dict[str, float]:
    """Return all scores of `evaluate` by name, and two summaries over the targets that vary.

    ``holdout_rmse_ratio`` is the geometric mean of the ratios of the processes' RMSE to the blend's;
    ``holdout_nll_gain`` is the mean difference of the blend's negative log density and the processes'.
    """
    found = {}
    for name, values in scores.items():
        found[f"holdout_{name}_reward"], *changes = values.tolist()
        found |= {f"holdout_{name}_ds{number}": value for number, value in enumerate(changes)}
    varying = (scores["rmse_blend"] > 0) & (scores["rmse_gp"] > 0)
    if varying.any():
        ratio = (scores["rmse_gp"] / scores["rmse_blend"])[varying].log().mean().exp()
        gain = (scores["nll_blend"] - scores["nll_gp"])[varying].mean()
        found |= {"holdout_rmse_ratio": float(ratio), "holdout_nll_gain": float(gain)}
    return found


def _nll(error: Tensor, variance: Tensor) -> Tensor:
    variance = variance.clamp(min=1e-30)
    return 0.5 * (torch.log(2.0 * math.pi * variance) + error.square() / variance).mean(dim=(0, 1))


def nearest_blend(x: Tensor, y: Tensor, queries: Tensor) -> Tensor:
    """Return the targets ``(n, q, T)`` of the points nearest to `queries` ``(n, q, d)`` on segments from x[:, 0].

    Points x are ``(n, m, d)``, their targets y ``(n, m, T)``.
    """
    anchor = x[:, :1]
    ends = x[:, 1:] - anchor
    offsets = queries - anchor
    length = ends.square().sum(2).unsqueeze(1)
    share = (offsets @ ends.mT / length.clamp(min=torch.finfo(x.dtype).tiny)).clamp(0.0, 1.0)
    distance = (offsets.unsqueeze(2) - share.unsqueeze(3) * ends.unsqueeze(1)).square().sum(3)
    chosen = distance.argmin(dim=2, keepdim=True)
    end = y[:, 1:].gather(1, chosen.expand(-1, -1, y.shape[2]))
    return torch.lerp(y[:, :1].expand_as(end), end, share.gather(2, chosen))


class HoldOut:
    """Evaluates predictions every `EVERY` batches.

    Args:
        split: Share of each neighborhood to hold out, above 0 and below 1.
    """

    def __init__(self, split: float):
        check_number("holdout_split", split, 0, 1, above_low=True, below_high=True)
        self.split = float(split)
        self.batches = 0
        self.latest: dict[str, float] = {}

    def __call__(
        self, form: Form, schedule: Schedule, preparation: Preparation, z: Tensor, y: Tensor, actions: int
    ) -> None:
        """Evaluate a batch if it is due; arguments as in `evaluate`."""
        if self.batches % EVERY == 0 and z.shape[1] > 2:
            self.latest = summarize(evaluate(form, schedule, preparation, z, y, actions, self.split))
        self.batches += 1

    def state_dict(self) -> dict[str, Any]:
        return {"batches": self.batches, "latest": dict(self.latest)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.batches = int(state["batches"])
        self.latest = dict(state["latest"])
