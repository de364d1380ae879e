"""Outcomes of blended states and actions, predicted by Gaussian processes over the anchor's neighborhood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from interreplay.part import standard_normal
from interreplay.synthesis.base import Synthesized
from interreplay.synthesis.blend import Blend, TerminationFn
from interreplay.synthesis.coefficient import Beta, Coefficient
from interreplay.synthesis.gaussian_process.holdout import HoldOut
from interreplay.synthesis.gaussian_process.kernels import Form
from interreplay.synthesis.gaussian_process.neighborhoods import Preparation, inputs_of, targets_of, with_outcome
from interreplay.synthesis.gaussian_process.posterior import posterior
from interreplay.synthesis.gaussian_process.schedule import MonteCarlo, Schedule, means
from interreplay.synthesis.gaussian_process.weights import likelihood_weights
from interreplay.transitions import Transitions

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


class GaussianProcess(Blend):
    """(s_q, a_q, μ_r(z_q), s_q + μ_Δs(z_q)) at z_q = λz_i + (1 − λ)z_c, c the first of the neighbors of i.

    One exact Gaussian process per target (the reward and each number of Δs = s' − s) is conditioned on the anchor and
    all its neighbors; a neighborhood that draws its k neighbors in random order, as ``KNN(k, draw=k)`` does, makes
    c uniform. A row whose query falls on its anchor is the anchor, and so are rows that `Blend` reverts. A
    neighborhood whose matrix cannot be factorized becomes the plain blend of i and c, and is counted. Neighbors are of
    the anchor's choices; those in s' are not predicted, and where they are not c's the row is its anchor.

    Args:
        form: Kernel and mean.
        preparation: Scaling, principal components and precision.
        schedule: Where hyperparameters come from; the mean of fits of 32 neighborhoods every 1,000 batches by default.
        coefficient: Distribution of λ; Beta(.75, .75) by default.
        sample_posterior: Outcomes are drawn from the posterior of the function; its mean without.
        weighted: The batch comes with likelihood weights.
        holdout: Evaluates predictions of rows that are left out, now and then; None for never.
        prob_interpolation: Probability with which a row is mixed at all.
        termination_fn: As `Blend` takes it.
        interp_decay: As `Blend` takes it.

    Raises:
        ValueError: When an argument is out of range, or principal components are to be split into states and actions.
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
        self.form = form if form is not None else Form()
        self.preparation = preparation if preparation is not None else Preparation()
        self.schedule = schedule if schedule is not None else MonteCarlo()
        self.coefficient = coefficient if coefficient is not None else Beta()
        self.sample_posterior, self.weighted = sample_posterior, weighted
        if self.form.composite and self.preparation.components is not None:
            raise ValueError("composite is True with pca_components; a principal component mixes states and actions")
        self.holdout = holdout
        self.counts = {"rows": 0, "failed": 0, "retried": 0}

    def prepare(self, storage: Storage, rng: np.random.Generator) -> None:
        self.schedule.observe(storage, self.preparation, rng, self.view)

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        partners = self.partners(neighbors)
        mix = torch.from_numpy(self.shares(len(anchors), rng)).to(anchors.rewards)
        mix = self.revert_where_needed(mix, anchors, partners, rng)
        blended = anchors.blend(partners, mix)
        z = torch.cat([inputs_of(anchors).unsqueeze(1), inputs_of(neighbors)], dim=1)
        y = torch.cat([targets_of(anchors).unsqueeze(1), targets_of(neighbors)], dim=1)
        actions = anchors.actions[0].numel() if anchors.actions.is_floating_point() else 0
        offset = (z[:, 1] - z[:, 0]) * (1.0 - mix).to(z).unsqueeze(1)
        mix = torch.where((offset == 0).all(dim=1), 1.0, mix)
        outcome, variances, failed = self.outcomes(z, y, actions, offset, rng)
        if self.holdout is not None:
            self.holdout(self.form, self.schedule, self.preparation, z, y, actions)
        made = blended.where(failed, with_outcome(blended, outcome))
        rows = anchors.where(mix >= 1, made)
        # Nothing is predicted where a row is its anchor.
        variances = variances.masked_fill((mix >= 1).unsqueeze(1), 0.0)
        weights = likelihood_weights(variances).float() if self.weighted else None
        return Synthesized(self.with_termination(rows, anchors, mix), mix, variances, weights)

    def shares(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Return λ ``(size,)``."""
        return self.coefficient(size, rng)

    def outcomes(
        self, z: Tensor, y: Tensor, actions: int, offset: Tensor, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return what `predict` gives at one query per neighborhood, at `offset` ``(n, d)`` from the anchor."""
        outcome, variances, failed = self.predict(z, y, actions, offset.unsqueeze(1), rng)
        return outcome.squeeze(1), variances.squeeze(1), failed

    def predict(
        self, z: Tensor, y: Tensor, actions: int, offsets: Tensor, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return outcomes and predictive variances ``(n, q, T)``, and which neighborhoods failed ``(n,)``.

        Args:
            z: Features ``(n, m, d)``, the anchor first.
            y: Targets ``(n, m, T)``.
            actions: How many of the features are actions.
            offsets: Queries relative to the anchors ``(n, q, d)``.
            rng: Source of all randomness.
        """
        batch = self.preparation(z, y)
        form = self.form.over(batch.x.shape[2], actions)
        queries = batch.place(offsets.to(batch.x))
        found = posterior(form, self.schedule(form, batch), batch.x, batch.y, queries)
        mean, variance = found.mean, found.variance
        if self.sample_posterior:
            mean = mean + variance.sqrt() * standard_normal(mean.shape, rng, mean.device).to(mean)
        outcome = batch.targets.undo(mean)
        variances = (variance + found.noise) * batch.targets.width.square()
        failed = found.failed | ~(outcome.isfinite() & variances.isfinite()).flatten(1).all(1)
        # Nothing was learned of the outcome there: as uncertain as the targets of the neighborhood are spread.
        variances = torch.where(failed[:, None, None], batch.targets.width.square(), variances)
        self._count(len(failed), int(failed.sum()), found.retried)
        return outcome, variances, failed

    def _count(self, rows: int, failed: int, retried: int) -> None:
        for name, more in (("rows", rows), ("failed", failed), ("retried", retried)):
            self.counts[name] += more

    def statistics(self) -> dict[str, float]:
        """Return shares of failed neighborhoods and of jittered matrices, counts of fits, mean hyperparameters."""
        rows = max(1, self.counts["rows"])
        found = {
            "gp_failed_share": self.counts["failed"] / rows,
            "gp_retried": float(self.counts["retried"] + self.schedule.retried),
            "gp_fits": float(self.schedule.fits),
            "gp_fit_failures": float(self.schedule.failures),
        }
        current = self.schedule.current
        hyper = {} if current is None else means(current)
        found |= {f"gp_{name}": hyper[name] for name in ("lengthscale", "outputscale", "noise") if name in hyper}
        return found | (self.holdout.latest if self.holdout is not None else {})

    def state_dict(self) -> dict[str, Any]:
        state = {**super().state_dict(), "schedule": self.schedule.state_dict(), "counts": dict(self.counts)}
        return state | ({"holdout": self.holdout.state_dict()} if self.holdout is not None else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.schedule.load_state_dict(state["schedule"])
        self.counts = {name: int(value) for name, value in state["counts"].items()}
        if self.holdout is not None and "holdout" in state:
            self.holdout.load_state_dict(state["holdout"])
