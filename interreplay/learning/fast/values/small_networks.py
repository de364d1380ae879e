"""`interreplay.learning.dqn.DQNUpdate` in numpy, for small networks of one stream on the processor.

A call of torch takes several microseconds, one of numpy one or two. With layers of 64 units and batches of 32 an update
is some fifty calls on arrays that fit into a cache, so what they are called by is most of what it takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from interreplay.learning.dqn import DQNUpdate
from interreplay.learning.fast.optimizer import FlatAdam
from interreplay.learning.fast.values.numpy_passes import SmallNetwork, are_small
from interreplay.learning.streams import OneStream
from interreplay.learning.update import SampleLike, UpdateResult, view_tensors
from interreplay.learning.value_heads import Mean


def fits(networks: Any) -> bool:
    """Return whether `FastDQNUpdate` can learn them: small layers, means, no encoder that learns."""
    layers = networks.actor.layers
    plain = isinstance(networks.actor.head, Mean) and not any(True for _ in networks.encoder.parameters())
    return plain and isinstance(layers, OneStream) and are_small([layers.body])


class FastDQNUpdate(DQNUpdate):
    """The update that `DQNUpdate` defines, where `fits` says so; batches with views or losses of their own are its own.

    Arguments are those of `DQNUpdate`; the optimizer is Adam, and gradients are clipped by their norm or not at all.
    """

    def __init__(self, networks: Any, **options: Any):
        super().__init__(networks, **options)
        self._online, self._target = SmallNetwork(self.layers.body), SmallNetwork(self.target_layers.body)
        optimizer = self.optimizers["q"]
        assert isinstance(optimizer, FlatAdam)
        self._adam = optimizer

    def make_optimizer(self, name: str, lr: float, eps: float) -> torch.optim.Optimizer:
        return FlatAdam(self.parameters, lr, eps=eps)

    @torch.no_grad()
    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        rows = batch.transitions
        if batch.critic_loss is not None or "views_obs" in rows.extras:
            return super().update(batch, rng)
        weights = self.weights_of(batch).numpy()
        seen = self._online.forward(view_tensors(rows, self.networks.encoder, "obs")[0].numpy())
        outputs, count = seen[-1], len(weights)
        taken = np.arange(0, outputs.size, outputs.shape[1])
        taken += rows.actions.numpy()
        chosen = outputs.reshape(-1).take(taken)
        errors = chosen - self._targets(batch)
        delta = self.head.huber_delta
        slopes = errors if delta is None else errors.clip(-delta, delta)
        gradient = np.zeros_like(outputs)
        gradient.reshape(-1)[taken] = slopes * weights / count
        self._online.backward(seen, gradient, self._adam.pieces)
        self._clip()
        self._adam.apply()
        self.move_targets()
        losses = slopes * (errors - 0.5 * slopes)
        sums = np.array([losses @ weights, np.add.reduce(chosen), np.add.reduce(np.abs(errors))], errors.dtype)
        found = torch.from_numpy(errors)
        return UpdateResult(found, torch.from_numpy(sums / count), self.scores(self.scores_wanted, found))

    def _targets(self, batch: SampleLike) -> np.ndarray:
        """Return the targets ``(n,)``."""
        rows = batch.transitions
        assert rows.discounts is not None
        next_obs = view_tensors(rows, self.networks.encoder, "next_obs")[0].numpy()
        following = self._target.forward(next_obs)[-1]
        judged = self._online.forward(next_obs)[-1] if self.double else following
        best = judged.argmax(1)
        best += np.arange(0, following.size, following.shape[1])
        return rows.rewards.numpy() + rows.discounts.numpy() * following.reshape(-1).take(best)

    def _clip(self) -> None:
        if self.grad_clip is None:
            return
        gradients = self._adam.gradients.numpy()
        norm = float(np.sqrt(gradients @ gradients)) + 1e-6
        if norm > self.grad_clip:
            gradients *= self.grad_clip / norm
