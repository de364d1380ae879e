"""How well rows left out of their neighborhoods are predicted: by the Gaussian processes, by the linear blend."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.synthesis.gaussian_process.kernels import Form
from interreplay.synthesis.gaussian_process.neighborhoods import Preparation
from interreplay.synthesis.gaussian_process.posterior import posterior
from interreplay.synthesis.gaussian_process.schedule import Schedule


@dataclass(frozen=True)
class Scores:
    """Errors on rows that were left out, per target [r; Δs], in the targets' own units.

    Attributes:
        rmse: Root mean squared errors ``(T,)`` of ``"gp"``, ``"blend"`` and ``"mean"``, the mean of the rows kept.
        nll: Mean negative log densities ``(T,)`` of ``"gp"`` and ``"blend"``, in nats.
    """

    rmse: dict[str, Tensor]
    nll: dict[str, Tensor]

    def numbers(self) -> dict[str, float]:
        """Return all of them by name, and two summaries over the targets that vary.

        ``holdout_rmse_ratio`` is the geometric mean of the processes' RMSE as a share of the blend's;
        ``holdout_nll_gain`` what the blend's negative log density has more, on average.
        """
        found = {}
        for kind, scores in (("rmse", self.rmse), ("nll", self.nll)):
            for method, values in scores.items():
                for number, value in enumerate(values.tolist()):
                    found[f"holdout_{kind}_{method}_{target_name(number)}"] = value
        varying = (self.rmse["blend"] > 0) & (self.rmse["gp"] > 0)
        if varying.any():
            ratio = (self.rmse["gp"][varying] / self.rmse["blend"][varying]).log().mean().exp()
            gain = (self.nll["blend"] - self.nll["gp"])[varying].mean()
            found |= {"holdout_rmse_ratio": float(ratio), "holdout_nll_gain": float(gain)}
        return found


def target_name(number: int) -> str:
    """Return the name of a target among [r; Δs]."""
    return "reward" if number == 0 else f"ds{number - 1}"


def evaluate(
    form: Form, schedule: Schedule, preparation: Preparation, z: Tensor, y: Tensor, actions: int, split: float
) -> Scores:
    """Leave the last rows out of every neighborhood and predict them from the others.

    The blend is given the best it could have: the point nearest to the row on any segment from the anchor to a row
    that is kept, and the standard deviation, as a share of the neighborhood's, that fits its errors on this batch.

    Args:
        form: Kernel and mean.
        schedule: Hyperparameters; nothing about it changes.
        preparation: Scaling.
        z: Features ``(n, m, d)``, the anchor first, the others in random order.
        y: Targets ``(n, m, T)``.
        actions: How many of the features are actions.
        split: Share of the rows to leave out, at least one and at most m − 2 of them.
    """
    m = z.shape[1]
    kept = max(2, m - max(1, round(split * (m - 1))))
    batch = preparation(z[:, :kept], y[:, :kept])
    form = form.over(batch.x.shape[2], actions)
    offsets = (z[:, kept:] - z[:, :1]).to(batch.x)
    queries, truth = batch.place(offsets), y[:, kept:].to(batch.x)
    found = posterior(form, schedule.applied(form, batch), batch.x, batch.y, queries)
    width = batch.targets.width
    error = {
        "gp": batch.targets.undo(found.mean) - truth,
        "blend": batch.targets.undo(nearest_blend(batch.x, batch.y, queries)) - truth,
        "mean": batch.targets.center - truth,
    }
    good = ~found.failed
    error = {name: value[good].double() for name, value in error.items()}
    variance = ((found.variance + found.noise) * width.square())[good].double()
    share = (error["blend"] / width[good]).square().mean(dim=(0, 1), keepdim=True)
    spread = (share * width[good].double().square()).expand_as(variance)
    return Scores(
        {name: value.square().mean(dim=(0, 1)).sqrt() for name, value in error.items()},
        {"gp": _nll(error["gp"], variance), "blend": _nll(error["blend"], spread)},
    )


def _nll(error: Tensor, variance: Tensor) -> Tensor:
    variance = variance.clamp(min=1e-30)
    return 0.5 * (torch.log(2.0 * math.pi * variance) + error.square() / variance).mean(dim=(0, 1))


def nearest_blend(x: Tensor, y: Tensor, queries: Tensor) -> Tensor:
    """Return targets ``(n, q, T)`` of the nearest points to `queries` ``(n, q, d)`` on segments from the first point.

    Args:
        x: Points ``(n, m, d)``.
        y: Their targets ``(n, m, T)``.
        queries: Where to predict.
    """
    anchor = x[:, :1]
    ends, wanted = x[:, 1:] - anchor, queries - anchor
    length = ends.square().sum(2).unsqueeze(1)
    share = (wanted @ ends.mT / length.clamp(min=torch.finfo(x.dtype).tiny)).clamp(0.0, 1.0)
    away = (wanted.unsqueeze(2) - share.unsqueeze(3) * ends.unsqueeze(1)).square().sum(3)
    chosen = away.argmin(dim=2, keepdim=True)
    share = share.gather(2, chosen)
    end = y[:, 1:].gather(1, chosen.expand(-1, -1, y.shape[2]))
    return torch.lerp(y[:, :1].expand_as(end), end, share)


class HoldOut:
    """An evaluation once in so many batches.

    Args:
        split: Share of each neighborhood to leave out, above 0 and below 1.
        every: Batches between two evaluations.

    Raises:
        ValueError: When one of them is out of range.
    """

    def __init__(self, split: float = 0.2, every: int = 500):
        check_number("holdout_split", split, 0, 1, above_low=True, below_high=True)
        check_number("every", every, 1, whole=True)
        self.split, self.every, self.batches = float(split), every, 0
        self.latest: dict[str, float] = {}

    def __call__(
        self, form: Form, schedule: Schedule, preparation: Preparation, z: Tensor, y: Tensor, actions: int
    ) -> None:
        """Look at a batch, if it is time."""
        if self.batches % self.every == 0 and z.shape[1] > 2:
            self.latest = evaluate(form, schedule, preparation, z, y, actions, self.split).numbers()
        self.batches += 1

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""
        return {"batches": self.batches, "latest": dict(self.latest)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.batches, self.latest = int(state["batches"]), dict(state["latest"])
