"""The update of IMPALA, CLEAR, LASER, A2C and A3C from fresh and replayed unrolls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.losses import make_loss
from interreplay.learning.networks.optimizers import FastAdam, RMSprop
from interreplay.learning.policy_gradient.unroll_settings import IMPALASettings
from interreplay.learning.policy_gradient.vtrace import vtrace
from interreplay.learning.update import Update, clip_gradients, trainable
from interreplay.transitions import map_observation

UnrollsLike = Any
"""T steps of B environments, `interreplay.unrolls.unrolls.Unrolls`, which this layer does not import."""


@dataclass(frozen=True, slots=True)
class UnrollResult:
    """The errors, policy outputs and metrics of B unrolls under the networks before the update.

    Attributes:
        errors: Mean |v − V| over the live steps of each unroll ``(B,)``; these serve as priorities.
        policy: Outputs of the policy for their observations ``(T, B, F)``, comparable with `Unrolls.policy`.
        metrics: The numbers that `IMPALAUpdate.metrics` names, one tensor.
    """

    errors: Tensor
    policy: Tensor
    metrics: Tensor


class IMPALAUpdate(Update):
    """One gradient step from T steps of B environments, by one pass over their (T + 1)·B observations.

    With v and A of `vtrace`, and sums over live steps that are `kept`:

    * policy: −Σ log π(a|s)·A,
    * value: `vf_loss_coeff`·½·Σ (v − V)², or `critic_loss` in place of ½(v − V)²,
    * entropy: −`entropy_coeff`·Σ H(π), over all live steps, with LASER over live steps of fresh unrolls,
    * CLEAR's cloning losses (Rolnick et al. 2019, arXiv:1811.11682), over replayed unrolls only:
      `policy_cloning`·Σ KL(µ ‖ π) and `value_cloning`·Σ (V − V_µ)², V_µ the value at the time of acting.

    All terms except the entropy are multiplied by the importance weight of the unroll.

    With ``loss="mean"`` the loss is divided by T·B. ``returns="gae"`` requires unrolls of the current policy; ratios
    are 1 and A = v − V: generalized advantages (Schulman et al. 2016, arXiv:1506.02438).

    Args:
        networks: `PolicyValueNetworks` with an encoder.
        settings: Settings of the algorithm; None for its defaults.
        gamma: Discount factor.
        lr: Learning rate; None for the one in `settings`.
    """

    result_class = UnrollResult
    metrics = (
        *("loss", "policy_loss", "value_loss", "entropy", "value_error", "rho_mean", "rho_clipped_share"),
        *("kl_to_behavior", "kept_share", "effective_sample_size", "replayed_share", "policy_cloning", "value_cloning"),
    )

    def __init__(
        self,
        networks: Any,
        settings: IMPALASettings | None = None,
        gamma: float = 0.99,
        lr: float | None = None,
    ):
        self.settings = settings = settings or IMPALASettings()
        self.networks = networks
        self.gamma = float(gamma)
        self.family = networks.actor.family
        self.memory = networks.actor.memory
        self.parameters: list[Any] = trainable(networks.actor, networks.encoder)
        lr = settings.lr if lr is None else lr
        if settings.optimizer == "Adam":
            optimizer: torch.optim.Optimizer = FastAdam(self.parameters, lr, eps=settings.optimizer_eps)
        else:
            optimizer = RMSprop(self.parameters, lr, settings.optimizer_decay, settings.optimizer_eps)
        self.optimizers = {"all": optimizer}
        implied = settings.relevance_bound is not None and settings.relevance_of == "implied"
        if implied and networks.actor.gaussian:
            raise ValueError("relevance_of is 'implied' and actions are continuous; expected 'behavior'")
        self.value_loss = None if settings.critic_loss is None else make_loss(settings.critic_loss)

    def learn(self, batch: UnrollsLike, rng: torch.Generator | None = None) -> UnrollResult:
        """Learn from a batch of unrolls; nothing is drawn from `rng`."""
        result = self.differentiate(batch)
        self.step()
        return result

    def differentiate(self, unrolls: UnrollsLike) -> UnrollResult:
        """Set ``.grad`` of all parameters to the gradient of the loss of a batch, without applying it."""
        for parameter in self.parameters:
            parameter.grad = None
        loss, result = self.loss(self._outputs(unrolls), unrolls)
        gradients = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        return result

    def step(self) -> None:
        """Apply the gradients of the parameters, clipped."""
        clip_gradients(self.parameters, self.settings.grad_clip, self.settings.grad_clip_by)
        optimizer: Any = self.optimizers["all"]
        optimizer.apply()

    @torch.no_grad()
    def policy(self, unrolls: UnrollsLike) -> Tensor:
        """Return the outputs of the policy ``(T, B, F)`` for the observations of unrolls, without gradients."""
        return self._outputs(unrolls)[:-1, :, :-1]

    def _outputs(self, unrolls: UnrollsLike) -> Tensor:
        """Return [numbers of the policy; value] ``(T + 1, B, F + 1)`` for the observations of unrolls."""
        moments = (unrolls.steps + 1, unrolls.size)
        rows = self.networks.encoder(map_observation(lambda part: part.flatten(0, 1), unrolls.obs))
        if self.memory is not None:
            rows = self.memory.unroll(rows.unflatten(0, moments), unrolls.state, unrolls.live).flatten(0, 1)
        return self.networks.actor.output(rows).unflatten(0, moments)

    def loss(self, outputs: Tensor, unrolls: UnrollsLike) -> tuple[Tensor, UnrollResult]:
        """Return the loss of a batch and its result.

        `outputs` are [numbers of the policy; value] ``(T + 1, B, F + 1)``, with gradients.
        """
        s = self.settings
        live = unrolls.live
        pi = outputs[:-1, :, :-1]
        values = outputs[..., -1]
        log_probs = self.family.log_prob(pi, unrolls.actions)
        with torch.no_grad():
            log_ratios = log_probs - self.family.log_prob(unrolls.policy, unrolls.actions)
            keep = self.kept(pi, unrolls.policy)
            targets, advantages = self.returns(log_ratios, values, unrolls, keep)
            weights = unrolls.weights.to(pi.dtype)
            counted = live.to(pi.dtype)
            rewarded = counted
            if keep is not None:
                counted = (live & keep).to(pi.dtype)
                rewarded = (live & unrolls.fresh).to(pi.dtype)
            replayed = counted * (~unrolls.fresh).to(pi.dtype) * weights
        policy_loss = -(log_probs * advantages * weights).sum()
        errors = (targets - values)[:-1]
        if self.value_loss is None:
            value_loss = 0.5 * (errors.square() * counted * weights).sum()
        else:
            rows = counted.bool()  # these steps are the rows of one critic
            value_loss = (self.value_loss.values(errors[rows][None]) * weights.expand_as(errors)[rows]).sum()
        entropies = self.family.entropy(pi)
        total = policy_loss + s.vf_loss_coeff * value_loss - s.entropy_coeff * (entropies * rewarded).sum()
        clones = [replayed.new_zeros(()), replayed.new_zeros(())]
        if live.device.type != "cpu" or not unrolls.fresh.all():  # reading the mask from a GPU would wait
            if s.policy_cloning:
                clones[0] = (self.family.kl(unrolls.policy, pi) * replayed).sum()
                total = total + s.policy_cloning * clones[0]
            if s.value_cloning:
                clones[1] = ((values[:-1] - unrolls.values).square() * replayed).sum()
                total = total + s.value_cloning * clones[1]
        summed = total.detach()
        if s.loss == "mean":
            total = total / log_probs.numel()
        with torch.no_grad():
            sums = (summed, policy_loss, value_loss)
            described = self._policy_metrics(unrolls, pi, log_ratios, counted, entropies, errors)
            steps = counted.sum().clamp(min=1.0)
            replayed_steps = replayed.sum().clamp(min=1.0)
            metrics = torch.stack([*(x / steps for x in sums), *described, *(x / replayed_steps for x in clones)])
            by_unroll = (errors.abs() * live).sum(dim=0) / live.sum(dim=0).clamp(min=1)
        return total, UnrollResult(by_unroll.detach(), pi.detach(), metrics)

    @torch.no_grad()
    def kept(self, pi: Tensor, mu: Tensor) -> Tensor | None:
        """Return whether each step has value, policy and cloning losses ``(T, B)``, bool; None for all steps.

        LASER's rule (Schmitt et al. 2020, arXiv:1909.11583): KL(π(·|s) ‖ π̃(·|s)) < `relevance_bound`, where π̃ is the
        policy that V-trace evaluates, π̃ ∝ min(ρ̄ µ, π), or µ.

        `pi` and `mu` are the outputs ``(T, B, F)`` of the current and of the behavior policy.
        """
        s = self.settings
        if s.relevance_bound is None:
            return None
        if s.relevance_of == "implied":
            return self.family.kl_to_implied(pi, mu, s.vtrace_rho) < s.relevance_bound
        return self.family.kl(pi, mu) < s.relevance_bound

    def returns(
        self, log_ratios: Tensor, values: Tensor, unrolls: UnrollsLike, keep: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return targets ``(T + 1, B)`` of the values, and advantages ``(T, B)``."""
        s = self.settings
        discounts = self.gamma * (~unrolls.terminated).to(values.dtype)
        given = (values, unrolls.rewards.to(values.dtype), discounts, unrolls.live)
        if s.returns == "gae":
            targets, _ = vtrace(torch.zeros_like(log_ratios), *given, lam=s.returns_lambda)
            return targets, (targets - values)[:-1]
        return vtrace(log_ratios, *given, keep, s.vtrace_rho, s.vtrace_c, pg_rho=s.vtrace_pg_rho, lam=s.returns_lambda)

    def _policy_metrics(
        self, unrolls: UnrollsLike, pi: Tensor, log_ratios: Tensor, counted: Tensor, entropies: Tensor, errors: Tensor
    ) -> list[Tensor]:
        """Return the metrics from entropy to replayed share: means over live steps, of errors over kept steps."""
        live = unrolls.live.to(pi.dtype)
        steps = live.sum().clamp(min=1.0)
        ratios = log_ratios.exp().clamp(max=self.settings.vtrace_rho) * live
        clipped = ((log_ratios > math.log(self.settings.vtrace_rho)) & unrolls.live).sum()
        # Kish's effective sample size for weights by ratios, as a share of the steps; the largest weight is 1.
        ignored = ~unrolls.live
        weights = (log_ratios - log_ratios.masked_fill(ignored, -math.inf).max()).masked_fill(ignored, -math.inf).exp()
        size = weights.sum().square() / weights.square().sum().clamp(min=1e-30) / steps
        divergence = (self.family.kl(pi, unrolls.policy) * live).sum() / steps
        error = (errors.abs() * counted).sum() / counted.sum().clamp(min=1.0)
        replayed = (~unrolls.fresh).to(pi.dtype).mean()
        means = [(entropies * live).sum() / steps, error, ratios.sum() / steps, clipped / steps, divergence]
        return [*means, counted.sum() / steps, size, replayed]
