"""`interreplay.learning.impala.ImpalaUpdate` with the gradients of its losses by hand, for Discrete actions.

What is made of the outputs of a network is some sixty small arrays. PyTorch's autograd takes about a millisecond for
them, whatever their size, which is what a batch of eight unrolls of five steps costs otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.learning.distributions import Categorical
from interreplay.learning.impala import ImpalaUpdate, UnrollResult
from interreplay.learning.relevance import Everywhere
from interreplay.learning.unroll_losses import UnrollsLike
from interreplay.learning.unroll_settings import IMPALASettings


def fits(networks: Any, settings: IMPALASettings) -> bool:
    """Return whether `FastImpalaUpdate` can learn them: Discrete actions, a processor, neither CLEAR nor LASER."""
    on_processor = all(parameter.device.type == "cpu" for parameter in networks.parameters())
    plain = not settings.policy_cloning and not settings.value_cloning and settings.relevance_bound is None
    return on_processor and plain and isinstance(networks.actor.family, Categorical)


class FastImpalaUpdate(ImpalaUpdate):
    """The update that `ImpalaUpdate` defines, where `fits` says so; arguments are the same."""

    def judge(self, outputs: Tensor, unrolls: UnrollsLike) -> tuple[Tensor, UnrollResult]:
        assert isinstance(self.relevance, Everywhere)
        s, logits, values = self.settings, outputs[:-1, :, :-1].numpy(), outputs[..., -1]
        logs = _log_softmax(logits)
        taken = np.arange(0, logits.size, logits.shape[-1]) + unrolls.actions.numpy().reshape(-1)
        behavior = _log_softmax(unrolls.policy.numpy().astype(logits.dtype, copy=False))
        chosen = logs.reshape(-1)[taken].reshape(logits.shape[:-1])
        log_ratios = chosen - behavior.reshape(-1)[taken].reshape(chosen.shape)
        targets, advantages = (x.numpy() for x in self.returns(torch.from_numpy(log_ratios), values, unrolls, None))
        live = unrolls.live.numpy().astype(logits.dtype)
        weights = unrolls.weights.numpy().astype(logits.dtype, copy=False)
        errors = (targets - values.numpy())[:-1]
        probabilities = np.exp(logs)
        entropies = -(probabilities * logs).sum(axis=-1)
        slopes = np.zeros(outputs.shape, logits.dtype)
        weighted = advantages * weights
        of_logits = probabilities * (
            weighted[..., None] + s.entropy_coeff * (logs + entropies[..., None]) * live[..., None]
        )
        of_logits.reshape(-1)[taken] -= weighted.reshape(-1)
        slopes[:-1, :, :-1] = of_logits
        slopes[:-1, :, -1] = -s.vf_loss_coeff * errors * live * weights
        if s.loss == "mean":
            slopes /= chosen.size
        losses = -(chosen * weighted).sum(), 0.5 * (np.square(errors) * live * weights).sum()
        divergence = (probabilities * (logs - behavior)).sum(axis=-1)
        metrics = self._metrics(unrolls, live, losses, entropies, errors, log_ratios, divergence)
        by_unroll = (np.abs(errors) * live).sum(axis=0) / np.maximum(live.sum(axis=0), 1.0)
        result = UnrollResult(torch.from_numpy(by_unroll), outputs[:-1, :, :-1], torch.from_numpy(metrics))
        return torch.from_numpy(slopes), result

    def _metrics(
        self,
        unrolls: UnrollsLike,
        live: np.ndarray,
        losses: tuple[Any, Any],
        entropies: np.ndarray,
        errors: np.ndarray,
        log_ratios: np.ndarray,
        divergence: np.ndarray,
    ) -> np.ndarray:
        """Return the numbers that `metrics` names."""
        s, steps = self.settings, max(float(live.sum()), 1.0)
        total = losses[0] + s.vf_loss_coeff * losses[1] - s.entropy_coeff * (entropies * live).sum()
        clipped = np.minimum(log_ratios, math.log(s.vtrace_rho))
        nowhere = live == 0
        weights = np.where(nowhere, -math.inf, log_ratios)
        weights = np.exp(weights - (0.0 if nowhere.all() else weights.max()))
        size = weights.sum() ** 2 / max(float(np.square(weights).sum()), 1e-30)
        means = (
            *(total, *losses, (entropies * live).sum(), (np.abs(errors) * live).sum(), (np.exp(clipped) * live).sum()),
            *(((log_ratios > clipped) * live).sum(), (divergence * live).sum(), live.sum(), size),
        )
        replayed = 1.0 - float(unrolls.fresh.numpy().mean())
        return np.array([*(x / steps for x in means), replayed, 0.0, 0.0], errors.dtype)


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted
