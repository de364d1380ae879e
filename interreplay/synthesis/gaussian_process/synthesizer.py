"""Outcomes of blended states and actions, predicted by Gaussian processes over the anchor's neighborhood."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.part import standard_normal
from interreplay.storage.ring import Storage
from interreplay.synthesis.base import Synthesized
from interreplay.synthesis.coefficient import Beta, Coefficient, check_coefficient, draw_coefficients
from interreplay.synthesis.gaussian_process.fit import Schedule
from interreplay.synthesis.gaussian_process.holdout import HoldOut
from interreplay.synthesis.gaussian_process.neighborhoods import Preparation, stack_inputs, stack_targets, with_outcome
from interreplay.synthesis.gaussian_process.processes import Form, posterior
from interreplay.synthesis.mixup import Blend, TerminationFn
from interreplay.transitions import Transitions


class GaussianProcess(Blend):
    """(s_q, a_q, μ_r(z_q), s_q + μ_Δs(z_q)) at z_q = λz_i + (1 − λ)z_c, where c is the first neighbor of i.

    One exact Gaussian process per target (the reward and each number of Δs = s' − s) is conditioned on the anchor and
    all its neighbors. If neighbors are in random order, as with ``KNN(k, draw=k)``, c is uniform. A row is its
    anchor if z_q is z_i or `Blend` reverts it. If the matrix of a neighborhood cannot be factorized, the row is the
    linear blend of i and c, and it is counted. Neighbors have the anchor's discrete values; discrete values of s' are
    not predicted, and the row is its anchor if they differ from c's.

    Args:
        form: Kernel and mean.
        preparation: Scaling, principal components and precision.
        schedule: Source of hyperparameters; by default the mean of fits of 32 neighborhoods every 1,000 batches.
        coefficient: Distribution of λ; Beta(.75, .75) by default.
        sample_posterior: Whether outcomes are drawn from the posterior of the function instead of taking its mean.
        weighted: Whether rows receive likelihood weights.
        holdout: Evaluates predictions of held-out rows; None for no evaluation.
        prob_interpolation: Probability with which a row is blended.
        termination_fn: See `Blend`.
        interp_decay: See `Blend`.

    Raises:
        ValueError: If an argument is out of range, or principal components are combined with a composite kernel.
    """

    independent_rows = False  # weights have mean 1 in a batch, and schedules count batches

    def __init__(
        self,
        form: Form | None = None,
        preparation: Preparation | None = None,
        schedule: Schedule | None = None,
        coefficient: Coefficient | None = None,
        sample_posterior: bool = False,
        weighted: bool = False,
        holdout: HoldOut | None = None,
        prob_interpolation: float = 1.0,
        termination_fn: TerminationFn | str | None = None,
        interp_decay: float = 0.0,
    ):
        super().__init__(prob_interpolation, termination_fn, interp_decay)
        self.form = form or Form()
        self.preparation = preparation or Preparation()
        self.schedule = schedule or Schedule()
        self.coefficient = Beta() if coefficient is None else check_coefficient(coefficient)
        self.sample_posterior = sample_posterior
        self.weighted = weighted
        self.holdout = holdout
        self.counts = {"rows": 0, "failed": 0, "retried": 0}
        if self.form.composite and self.preparation.components is not None:
            raise ValueError(
                "composite is True with pca_components; expected only one, because components mix states and actions"
            )

    def prepare(self, storage: Storage, rng: np.random.Generator) -> None:
        self.schedule.observe(storage, self.preparation, rng, self.view)

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        partners = self.partners(neighbors)
        mix = torch.from_numpy(draw_coefficients(self.coefficient, len(anchors), rng)).to(anchors.rewards)
        mix = self.revert_where_needed(mix, anchors, partners, rng)
        blended = anchors.blend(partners, mix)
        z = torch.cat([stack_inputs(anchors).unsqueeze(1), stack_inputs(neighbors)], dim=1)
        y = torch.cat([stack_targets(anchors).unsqueeze(1), stack_targets(neighbors)], dim=1)
        actions = anchors.actions[0].numel() if anchors.actions.is_floating_point() else 0
        offset = (z[:, 1] - z[:, 0]) * (1.0 - mix).to(z).unsqueeze(1)
        mix = torch.where((offset == 0).all(dim=1), 1.0, mix)
        outcome, variances, failed = self.predict(z, y, actions, offset, rng)
        if self.holdout is not None:
            self.holdout(self.form, self.schedule, self.preparation, z, y, actions)
        rows = anchors.where(mix >= 1, blended.where(failed, with_outcome(blended, outcome)))
        rows = self.with_termination(rows, anchors, mix)
        variances = variances.masked_fill((mix >= 1).unsqueeze(1), 0.0)  # nothing is predicted for an anchor
        weights = None
        if self.weighted:
            weights = likelihood_weights(variances).float()
        return Synthesized(rows, mix, variances, weights)

    def predict(
        self, z: Tensor, y: Tensor, actions: int, offset: Tensor, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return outcomes and predictive variances ``(n, T)``, and which neighborhoods failed ``(n,)``.

        Args:
            z: Features ``(n, m, d)``, the anchor first.
            y: Targets ``(n, m, T)``.
            actions: Number of features that are actions.
            offset: Queries relative to the anchors ``(n, d)``.
            rng: Source of all randomness.
        """
        batch = self.preparation(z, y)
        form = self.form.over(batch.x.shape[2], actions)
        queries = batch.place(offset.unsqueeze(1).to(batch.x))
        found = posterior(form, self.schedule(form, batch), batch.x, y=batch.y, queries=queries)
        mean = found.mean
        if self.sample_posterior:
            mean = mean + found.variance.sqrt() * standard_normal(mean.shape, rng).to(mean)
        outcome = batch.targets.undo(mean)
        neighborhood_variance = batch.targets.width.square()
        variances = (found.variance + found.noise) * neighborhood_variance
        failed = found.failed | ~(outcome.isfinite() & variances.isfinite()).flatten(1).all(1)
        variances = torch.where(failed[:, None, None], neighborhood_variance, variances)
        self.counts["rows"] += len(failed)
        self.counts["failed"] += int(failed.sum())
        self.counts["retried"] += found.retried
        return outcome.squeeze(1), variances.squeeze(1), failed

    def statistics(self) -> dict[str, float]:
        """Return shares of failed neighborhoods, counts of fits and retried factorizations, and hyperparameters."""
        found = {
            "gp_failed_share": self.counts["failed"] / max(1, self.counts["rows"]),
            "gp_retried": float(self.counts["retried"]),
            "gp_fits": float(self.schedule.fits),
            "gp_fit_failures": float(self.schedule.failures),
        }
        if self.schedule.current is not None:
            for name in ("lengthscale", "outputscale", "noise"):
                found[f"gp_{name}"] = float(getattr(self.schedule.current, name).mean())
        if self.holdout is not None:
            found |= self.holdout.latest
        return found

    def state_dict(self) -> dict[str, Any]:
        state = {**super().state_dict(), "schedule": self.schedule.state_dict(), "counts": dict(self.counts)}
        if self.holdout is not None:
            state["holdout"] = self.holdout.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.schedule.load_state_dict(state["schedule"])
        self.counts = {name: int(value) for name, value in state["counts"].items()}
        if self.holdout is not None and "holdout" in state:
            self.holdout.load_state_dict(state["holdout"])


def likelihood_weights(variances: Tensor) -> Tensor:
    """Return weights w = n·σ(g)/Σσ(g) ``(n,)`` with mean 1, where log g = mean over targets of −½ log(2πv).

    g is the geometric mean of the predictive densities at their means. σ(g) is between ½ and 1, so that no row counts
    more than twice as much as another. Variances of 0 (a row that is its anchor) and infinity are accepted.

    Args:
        variances: v ``(n, T)``, at least 0.
    """
    bounded = variances.double().clamp(1e-200, 1e200)
    log_density = (-0.5 * torch.log(2.0 * math.pi * bounded)).mean(dim=1)
    share = torch.sigmoid(log_density.exp())
    return (share * (len(share) / share.sum())).to(variances.dtype)
