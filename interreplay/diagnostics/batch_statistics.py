"""What a researcher wants to know of a replay method while it runs, cheap enough to be always on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.buffer import ReplayBuffer
from interreplay.buffer.sample import Sample
from interreplay.diagnostics.correlation import describe_correlation
from interreplay.diagnostics.on_manifold import OnManifold
from interreplay.experience.source import RowSource

ROWS = 1024
"""Rows drawn uniformly to stand for all that are stored."""


class Diagnostics:
    """Means, over the batches looked at, of numbers that describe them.

    One batch in `every` is looked at. Nothing here draws from the buffer's generator, so a run is the same
    with and without.

    Args:
        every: Batches per one that is looked at.
        seed: Of the uniform rows that batches are compared with.
        on_manifold: Simulates rows of these batches, too.
    """

    def __init__(self, every: int = 50, seed: int = 0, on_manifold: OnManifold | None = None):
        self.every, self.on_manifold = every, on_manifold
        self._rng = np.random.default_rng(seed)
        self._batches = 0
        self._drawn: dict[str, int] = {}
        self._found: dict[str, list[float]] = {}

    def observe(self, source: RowSource, sample: Sample, td_errors: Tensor) -> None:
        """Look at a batch, its TD errors ``(n,)``, and the source it came from."""
        self._batches += 1
        looked_at = (self._batches - 1) % self.every == 0
        for name, buffer, rows, errors in source.by_buffer(sample, td_errors):
            self._drawn[name] = self._drawn.get(name, 0) + len(rows)
            if looked_at:
                self._note(name, self._numbers(buffer, rows, errors, self._drawn[name]))
        if looked_at and self.on_manifold is not None:
            self._note("", self.on_manifold.of_batch(sample))

    def _numbers(self, buffer: ReplayBuffer, sample: Sample, td_errors: Tensor, drawn: int) -> dict[str, float]:
        """Describe the rows of one buffer, of which `drawn` were drawn so far."""
        uniform = torch.from_numpy(self._rng.integers(0, len(buffer), ROWS)).to(buffer.device)
        return describe(buffer, sample, td_errors, uniform) | {"replays_per_row": drawn / buffer.storage.written}

    def _note(self, name: str, numbers: Mapping[str, float]) -> None:
        for number, value in numbers.items():
            self._found.setdefault(f"{name}/{number}" if name else number, []).append(value)

    def collect(self) -> dict[str, float]:
        """Return means since the last call."""
        means = {name: float(np.mean(values)) for name, values in self._found.items()}
        self._found = {}
        return means

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""
        found = {name: list(values) for name, values in self._found.items()}
        state = {"rng": self._rng.bit_generator.state, "batches": self._batches, "found": found}
        return state | {"drawn": sum(self._drawn.values()), "drawn_by_buffer": dict(self._drawn)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self._rng.bit_generator.state = state["rng"]
        self._batches = int(state["batches"])
        self._drawn = dict(state.get("drawn_by_buffer", {"": int(state["drawn"])}))
        self._found = {name: list(values) for name, values in state["found"].items()}


def describe(buffer: ReplayBuffer, sample: Sample, td_errors: Tensor, uniform: Tensor) -> dict[str, float]:
    """Return numbers about one batch.

    Args:
        buffer: Where it was drawn from.
        sample: The batch of n rows.
        td_errors: Their δ ``(n,)``.
        uniform: Slots ``(m,)`` of rows drawn uniformly from all that are stored.

    Returns:
        ``td_error_*``: mean, median, largest and standard deviation of |δ|.
        ``weight_ess``: (Σw)² / (n·Σw²), the effective sample size as a share of n.
        ``age_mean``: rows written since the anchors, as a share of those stored.
        What `describe_correlation` returns.
        For methods that blend, ``mix_mean``, ``mix_q10`` … ``mix_q90``: mean and quantiles of λ;
        ``blended_share`` and ``reverted_share`` of the rows; ``neighbor_distance``: mean distance of blended
        pairs in z / std(z), as a share of that of uniformly drawn pairs.
    """
    size = td_errors.detach().abs().float()
    weights = sample.weights
    storage = buffer.storage
    age = storage.written - 1 - storage.write_numbers(sample.slots)
    found = {
        "td_error_mean": size.mean(),
        "td_error_median": size.median(),
        "td_error_max": size.max(),
        "td_error_std": size.std(),
        "weight_ess": weights.sum().square() / (len(weights) * weights.square().sum()),
        "age_mean": age.float().mean() / len(buffer),
    }
    numbers = {name: float(value) for name, value in found.items()}
    numbers |= describe_correlation(storage, sample.slots, uniform)
    if sample.mix is not None:
        numbers |= describe_blends(buffer, sample, sample.mix, uniform)
    if sample.row_weights is not None:
        v = sample.row_weights
        numbers["row_weight_ess"] = float(v.sum().square() / (len(v) * v.square().sum()))
    for part in buffer.parts.values():
        numbers |= part.statistics()
    return numbers


def describe_blends(buffer: ReplayBuffer, sample: Sample, mix: Tensor, uniform: Tensor) -> dict[str, float]:
    """Return the numbers of `describe` for methods that blend."""
    blended = mix < 1
    quantiles = torch.quantile(mix.float(), torch.tensor([0.1, 0.5, 0.9], device=mix.device)).tolist()
    numbers = {"mix_mean": float(mix.mean()), **dict(zip(("mix_q10", "mix_q50", "mix_q90"), quantiles, strict=True))}
    share = float(blended.float().mean())
    numbers |= {"blended_share": share, "reverted_share": 1.0 - share}
    stored = sample.neighbor_slots >= 0
    if stored.any():
        rows = buffer.storage.features(uniform)
        scale = rows.std(dim=0)
        scale = torch.where(scale > 0, scale, torch.inf)
        pairs = buffer.storage.features(sample.slots[stored]), buffer.storage.features(sample.neighbor_slots[stored])
        near = ((pairs[0] - pairs[1]) / scale).norm(dim=1).mean()
        far = ((rows - rows.roll(1, dims=0)) / scale).norm(dim=1).mean()
        numbers["neighbor_distance"] = float(near / far)
    return numbers
