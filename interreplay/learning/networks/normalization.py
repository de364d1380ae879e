"""Observations less their running mean, over their running deviation: numbers, and pixels of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from interreplay.transitions import Observation, observation_parts


class Moments:
    """Mean and deviation of all that was observed, by Chan et al. 1983's update in float64.

    Args:
        shape: Of one observation.

    Attributes:
        count: How many were observed.
        mean: ``(*shape)``.
        squares: Sums of squared deviations from it, ``(*shape)``.
    """

    def __init__(self, shape: tuple[int, ...]):
        self.count, self.mean, self.squares = 0, np.zeros(shape), np.zeros(shape)

    def observe(self, values: np.ndarray) -> None:
        """Take in ``(n, *shape)``, float64."""
        if not len(values):
            return
        count, mean = len(values), values.mean(axis=0)
        delta, total = mean - self.mean, self.count + count
        self.squares += np.square(values - mean).sum(axis=0) + np.square(delta) * self.count * count / total
        self.mean += delta * count / total
        self.count = total

    @property
    def deviation(self) -> np.ndarray:
        """``(*shape)``."""
        return np.sqrt(self.squares / max(self.count, 1))

    def state(self) -> dict[str, Any]:
        """Return what the next `observe` builds on."""
        return {"count": self.count, "mean": self.mean.copy(), "squares": self.squares.copy()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`."""
        self.count = int(state["count"])
        self.mean, self.squares = np.array(state["mean"]), np.array(state["squares"])


class NormalizedPixels(nn.Module):
    """Images less the running mean of each pixel, over its running deviation, within ±`LIMIT`.

    What stands still vanishes, and what moves is large, however few its pixels, as Pong's ball; without this features
    of two of its images differ by a tenth of what they are. Burda et al. 2018, arXiv:1810.12894, normalize so for their
    random networks. As long as nothing was observed images are only scaled.

    Args:
        shape: Of one image, a stack of frames included.
        most: The value that stands for 1; 255 for bytes.

    Attributes:
        only_scaled: Whether images are not normalized after all.
    """

    LIMIT = 3.0
    LEAST = 0.02
    """Added to the deviations: pixels that hardly ever differ are not blown up."""
    ROWS = 16
    """Images of one call of `observe` that are looked at, at most: they have tens of thousands of numbers each."""
    offset: Tensor
    factor: Tensor

    def __init__(self, shape: tuple[int, ...], most: float):
        super().__init__()
        self.register_buffer("offset", torch.zeros(shape))
        self.register_buffer("factor", torch.full(shape, 1.0 / most))
        self.most, self.moments, self.only_scaled = most, Moments(shape), False

    def forward(self, images: Tensor) -> Tensor:
        """Return ``(n, *shape)`` float32."""
        return torch.addcmul(self.offset, images.to(self.factor.dtype), self.factor).clamp_(-self.LIMIT, self.LIMIT)

    @torch.no_grad()
    def observe(self, images: Tensor) -> None:
        """Take images ``(n, *shape)`` into the statistics, evenly chosen ones of many."""
        if self.only_scaled:
            return
        chosen = np.linspace(0, len(images) - 1, min(len(images), self.ROWS)).astype(int)
        self.moments.observe(images[torch.from_numpy(chosen)].numpy(force=True) / self.most)
        self._publish()

    def load(self, state: Mapping[str, Any] | None) -> None:
        """Continue from the state of `moments`; None for images that are only scaled, now and later."""
        self.only_scaled = state is None
        if state is not None:
            self.moments.load(state)
            self._publish()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Load what copies act by, which checkpoints from before images were normalized do not have."""
        if f"{prefix}factor" in state_dict:
            super()._load_from_state_dict(state_dict, prefix, *args)

    def _publish(self) -> None:
        """Let `offset` and `factor` follow from the statistics."""
        if self.moments.count:
            scale = 1.0 / (self.moments.deviation + self.LEAST)
            self.offset.copy_(torch.from_numpy(-self.moments.mean * scale))
            self.factor.copy_(torch.from_numpy(scale / self.most))


class Normalized(nn.Module):
    """An encoder whose numbers are less their running mean, over their running deviation, within ±`LIMIT`.

    The statistics are those of all observations that were given to `observe`. What follows from them, `shift` and
    `factor`, is part of the module's state, so that copies elsewhere act alike. One-hot choices stay as they are;
    images are normalized before they are encoded, see `NormalizedPixels`.

    Args:
        encoder: What comes before.
        continuous: Which of its numbers are measurements ``(d,)``, bool.
        pixels: What normalizes images in the encoder, by the names of their parts.
    """

    LIMIT = 10.0
    continuous: Tensor
    shift: Tensor
    factor: Tensor
    limit: Tensor

    def __init__(self, encoder: nn.Module, continuous: Tensor, pixels: Mapping[str, NormalizedPixels] | None = None):
        super().__init__()
        self.encoder = encoder
        self.register_buffer("continuous", continuous, persistent=False)
        self.register_buffer("shift", torch.zeros(len(continuous)))
        self.register_buffer("factor", torch.ones(len(continuous)))
        limits = torch.where(continuous, self.LIMIT, float("inf"))
        self.register_buffer("limit", limits, persistent=False)
        self._pixels = dict(pixels or {})  # of the encoder, which has them registered
        self._known = continuous.numpy(force=True).copy()  # the same for the processor
        self.moments, self._measures = Moments((len(continuous),)), bool(continuous.any())

    def forward(self, obs: Observation) -> Tensor:
        """Return observations ``(n, ...)`` or named parts of such to float32 ``(n, d)``."""
        encoded = self.encoder(obs)
        return self.normalize(encoded) if self._measures else encoded

    def normalize(self, values: Tensor) -> Tensor:
        """Return numbers ``(..., d)`` of the encoder before, normalized."""
        return ((values - self.shift) * self.factor).clamp(-self.limit, self.limit)

    @torch.no_grad()
    def observe(self, obs: Observation) -> None:
        """Take observations ``(n, ...)`` into the statistics."""
        parts = observation_parts(obs)
        for name, pixels in self._pixels.items():
            pixels.observe(parts[name])
        if self._measures:
            self.moments.observe(self.encoder(obs).double().numpy(force=True))
            self._publish()

    def _publish(self) -> None:
        """Let `shift` and `factor` follow from the statistics; numbers that never differed are only shifted."""
        known, deviation = self._known, self.moments.deviation
        factor = np.where(known & (deviation > 1e-8), 1.0 / np.maximum(deviation, 1e-8), 1.0)
        self.shift.copy_(torch.from_numpy(np.where(known, self.moments.mean, 0.0)))
        self.factor.copy_(torch.from_numpy(factor))

    def statistics(self) -> dict[str, Any]:
        """Return what the next `observe` builds on."""
        seen = {name: pixels.moments.state() for name, pixels in self._pixels.items() if not pixels.only_scaled}
        return self.moments.state() | {"images": seen}

    def load_statistics(self, state: Mapping[str, Any]) -> None:
        """Continue from `statistics`; images of checkpoints from before they were normalized stay as they are."""
        self.moments.load(state)
        for name, pixels in self._pixels.items():
            pixels.load(state.get("images", {}).get(name))
        self._publish()
