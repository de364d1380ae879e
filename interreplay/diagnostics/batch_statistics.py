"""Statistics of batches during a run, cheap enough to be always on."""

from __future__ import annotations

import copy
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
"""Number of uniformly drawn rows that represent all stored rows."""
ERRORS = ("td_error_mean", "td_error_median", "td_error_max", "td_error_std")


def describe_errors(td_errors: Tensor) -> list[Tensor]:
    """Return the mean, median, maximum and standard deviation of |δ| for errors δ ``(n,)``, see `ERRORS`."""
    size = td_errors.detach().abs().float()
    return [size.mean(), size.median(), size.max(), size.std(correction=0)]


class Diagnostics:
    """Means of statistics over some of the batches: one in `every`, of which `on_manifold` also simulates rows.

    Nothing is drawn from the buffer's generator, so diagnostics do not change a run.
    """

    def __init__(self, every: int = 50, on_manifold: OnManifold | None = None):
        self.every = every
        self.on_manifold = on_manifold
        self._rng = np.random.default_rng(0)
        self._batches = 0
        self._drawn: dict[str, int] = {}
        self._found: dict[str, list[float]] = {}

    def observe(self, source: RowSource, sample: Sample, td_errors: Tensor) -> None:
        """Process a batch of a source and its TD errors ``(n,)``."""
        is_described = self._batches % self.every == 0
        self._batches += 1
        for name, buffer, rows, errors in source.split_by_buffer(sample, td_errors):
            drawn = self._drawn.get(name, 0) + len(rows)
            self._drawn[name] = drawn
            if is_described:
                uniform = torch.from_numpy(self._rng.integers(0, len(buffer), ROWS))
                self._append(name, describe(buffer, rows.to(torch.device("cpu")), errors.cpu(), uniform))
                self._append(name, {"replays_per_row": drawn / buffer.storage.written})
        if is_described and self.on_manifold is not None:
            self._append("", self.on_manifold.measure_batch(sample))

    def _append(self, name: str, numbers: Mapping[str, float]) -> None:
        for key, value in numbers.items():
            self._found.setdefault(f"{name}/{key}".lstrip("/"), []).append(value)

    def collect(self) -> dict[str, float]:
        """Return the means since the last call."""
        means = {name: float(np.mean(values)) for name, values in self._found.items()}
        self._found = {}
        return means

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume."""
        return {
            "rng": self._rng.bit_generator.state,
            "batches": self._batches,
            "found": copy.deepcopy(self._found),
            "drawn_by_buffer": dict(self._drawn),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        self._rng.bit_generator.state = state["rng"]
        self._batches = int(state["batches"])
        self._drawn = dict(state["drawn_by_buffer"])
        self._found = copy.deepcopy(dict(state["found"]))


def describe(buffer: ReplayBuffer, sample: Sample, td_errors: Tensor, uniform: Tensor) -> dict[str, float]:
    """Return statistics of n rows with TD errors δ ``(n,)``, compared with the rows in `uniform` ``(m,)``.

    Returns:
        ``td_error_*``: mean, median, maximum and standard deviation of |δ|.
        ``weight_ess``: (Σw)² / (n·Σw²), the effective sample size divided by n.
        ``age_mean``: rows written since the anchors, divided by the number of stored rows.
        The result of `describe_correlation`.
        For methods that blend, ``mix_mean``, ``mix_q10`` … ``mix_q90``: mean and quantiles of λ;
        ``blended_share`` and ``reverted_share`` of the rows; ``neighbor_distance``: mean distance of blended
        pairs in z / std(z), divided by the mean distance of uniformly drawn pairs; omitted if all rows have equal z.
    """
    storage = buffer.storage
    age = storage.written - 1 - storage.write_numbers(sample.slots)
    numbers = dict(zip(ERRORS, map(float, describe_errors(td_errors)), strict=True)) | {
        "weight_ess": _effective_share(sample.weights),
        "age_mean": float(age.float().mean() / len(buffer)),
    }
    numbers |= describe_correlation(storage, sample.slots, uniform)
    if sample.mix is not None:
        numbers |= describe_blends(buffer, sample, sample.mix, uniform)
    if sample.row_weights is not None:
        numbers["row_weight_ess"] = _effective_share(sample.row_weights)
    for part in buffer.parts.values():
        numbers |= part.statistics()
    return numbers


def _effective_share(weights: Tensor) -> float:
    """Return the effective sample size of weights ``(n,)`` divided by n."""
    return float(weights.sum().square() / (len(weights) * weights.square().sum()))


def describe_blends(buffer: ReplayBuffer, sample: Sample, mix: Tensor, uniform: Tensor) -> dict[str, float]:
    """Return the statistics of `describe` for methods that blend."""
    q10, q50, q90 = torch.quantile(mix.float(), torch.tensor([0.1, 0.5, 0.9], device=mix.device)).tolist()
    blended = float((mix < 1).float().mean())
    numbers = {
        "mix_mean": float(mix.mean()),
        "mix_q10": q10,
        "mix_q50": q50,
        "mix_q90": q90,
        "blended_share": blended,
        "reverted_share": 1.0 - blended,
    }
    stored = sample.neighbor_slots >= 0
    if stored.any():
        rows = buffer.storage.features(uniform)
        scale = rows.std(dim=0)
        scale = torch.where(scale > 0, scale, torch.inf)
        anchors = buffer.storage.features(sample.slots[stored])
        neighbors = buffer.storage.features(sample.neighbor_slots[stored])
        near = ((anchors - neighbors) / scale).norm(dim=1).mean()
        far = ((rows - rows.roll(1, dims=0)) / scale).norm(dim=1).mean()
        if far > 0:
            numbers["neighbor_distance"] = float(near / far)
    return numbers
