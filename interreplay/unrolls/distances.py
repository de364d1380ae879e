"""Distances of unrolls from the current policy or from the newest step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from interreplay.learning.networks.distributions import Categorical, Family, Normal
from interreplay.selection.distance import distance_by_name
from interreplay.transitions import Observation, map_observation
from interreplay.unrolls.storage.store import UnrollStore

KINDS = ("ln", "cosine", "kl")


class UnrollDistance:
    """Distance between the outputs of two policies at the live steps of unrolls.

    * ``"ln"``: the Lᵖ norm of the difference over all steps and outputs, divided by the p-th root of the steps;
    * ``"cosine"``: 1 − cos of the angle between all steps and outputs;
    * ``"kl"``: KL(behavior ‖ current), averaged over the steps.

    Args:
        kind: ``"ln"``, ``"cosine"`` or ``"kl"``.
        norm: p of ``"ln"``.
        gaussian: Whether outputs are [mean; log std] rather than logits, for ``"kl"``.

    Raises:
        ValueError: If the kind is unknown or the norm is not positive.
    """

    def __init__(self, kind: str = "kl", norm: float = 2.0, gaussian: bool = False):
        self._row_distance = distance_by_name(kind, norm, *KINDS)
        self.kind = kind
        self.norm = float(norm)
        self.gaussian = bool(gaussian)

    @torch.no_grad()
    def __call__(self, behavior: Tensor, current: Tensor, live: Tensor) -> Tensor:
        """Return distances ``(B,)``.

        Args:
            behavior: Outputs of the behavior policy ``(T, B, F)``.
            current: Outputs of the current policy ``(T, B, F)``.
            live: Mask ``(T, B)`` of the steps that count.
        """
        behavior = behavior.float()
        current = current.to(behavior.device).float()
        steps = live.sum(dim=0).clamp(min=1)
        if self.kind == "kl":
            family: Family = Normal(behavior.shape[-1] // 2) if self.gaussian else Categorical(behavior.shape[-1])
            divergences = family.kl(behavior, current).clamp(min=0.0)  # rounding may make it negative
            return torch.where(live, divergences, 0.0).sum(dim=0) / steps
        distances = self._row_distance(_flat_rows(behavior, live), _flat_rows(current, live))
        if self.kind == "ln":
            distances /= steps ** (1.0 / self.norm)
        return distances


def _flat_rows(outputs: Tensor, live: Tensor) -> Tensor:
    """Return outputs ``(T, B, F)`` as ``(B, T·F)``, with 0 at steps that do not count."""
    return torch.where(live[..., None], outputs, 0.0).transpose(0, 1).flatten(1)


def stored_distances(store: UnrollStore, slots: Tensor) -> Tensor:
    """Return the stored distances of the unrolls in `slots` ``(n,)``, for `Elite`, without a forward pass."""
    return torch.from_numpy(store.distances(slots.numpy()))


class DistanceToNewest:
    """Distances of unrolls from the newest step, for `Attentive`; every step of an unroll is compared with it.

    Args:
        distance: Compares features.
        features: Maps observations ``(n, ...)`` to features ``(n, F)``. None uses the stored outputs of the behavior
            policies, without a forward pass.
    """

    def __init__(self, distance: UnrollDistance, features: Callable[[Observation], Tensor] | None = None):
        self.distance = distance
        self.features = features

    @torch.no_grad()
    def __call__(self, store: UnrollStore, slots: Tensor) -> Tensor:
        """Return distances ``(n,)`` of the unrolls in `slots` ``(n,)``."""
        newest, observation = store.newest()
        live = store.column("live", slots)
        if self.features is None:
            features = store.column("policy", slots)
        else:
            newest = self.features(observation)
            observations = map_observation(lambda part: part.flatten(0, 1), store.observations(slots))
            features = self.features(observations).unflatten(0, live.shape)
        return self.distance(features, newest.expand_as(features), live)
