"""How far unrolls are from the policy of now, or from where the agent is."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from interreplay.selection.distance import kl, kl_categorical, named
from interreplay.transitions import Observation, map_observation
from interreplay.unrolls.storage.store import UnrollStore

KINDS = ("ln", "cosine", "kl")


class UnrollDistance:
    """Distance between what two policies give at the steps of unrolls; those that are none, after an end, do not count.

    * ``"ln"``: the Lᵖ norm of the difference, over all steps and numbers at once;
    * ``"cosine"``: 1 − cos of the angle between them, likewise;
    * ``"kl"``: KL(then ‖ now), the mean over the steps.

    Args:
        kind: One of these.
        norm: p of ``"ln"``.
        gaussian: Whether a policy gives [mean; log std] rather than logits, for ``"kl"``.

    Raises:
        ValueError: When the kind is another, or the norm not positive.
    """

    def __init__(self, kind: str = "kl", norm: float = 2.0, gaussian: bool = False):
        self._of_rows = named(kind, norm, *KINDS)
        self.kind, self.norm, self.gaussian = kind, float(norm), bool(gaussian)

    @torch.no_grad()
    def __call__(self, then: Tensor, now: Tensor, live: Tensor) -> Tensor:
        """Return distances ``(B,)``.

        Args:
            then: What was given ``(T, B, F)``.
            now: What is given ``(T, B, F)``.
            live: Which steps count ``(T, B)`` bool.

        Raises:
            ValueError: When the two are not of one shape.
        """
        if then.shape != now.shape:
            raise ValueError(f"the policy gives {tuple(now.shape)}; expected {tuple(then.shape)}, as it did then")
        then, now = then.float(), now.to(then.device).float()
        if self.kind == "kl":
            steps = (kl if self.gaussian else kl_categorical)(then, now)
            return torch.where(live, steps, 0.0).sum(dim=0) / live.sum(dim=0).clamp(min=1)
        one, other = (torch.where(live[..., None], part, 0.0).transpose(0, 1).flatten(1) for part in (then, now))
        return self._of_rows(one, other)


def as_stored(store: UnrollStore, slots: Tensor) -> Tensor:
    """Return the stored distances of the unrolls in `slots` ``(n,)``, for `Elite`: it costs no forward pass."""
    return torch.from_numpy(store.distances(slots.numpy()))


class ToNewest:
    """How far unrolls are from the newest step of all, for `Attentive`: each of their steps is compared with that one.

    Args:
        distance: Compares.
        features: Of observations ``(n, ...)``, ``(n, F)``. None takes what the behavior policies gave when they acted,
            which is stored: that costs no forward pass.
    """

    def __init__(self, distance: UnrollDistance, features: Callable[[Observation], Tensor] | None = None):
        self.distance, self.features = distance, features

    @torch.no_grad()
    def __call__(self, store: UnrollStore, slots: Tensor) -> Tensor:
        """Return distances ``(n,)`` of the unrolls in `slots` ``(n,)``."""
        newest, observation = store.newest()
        live = store.column("live", slots)
        if self.features is None:
            seen = store.column("policy", slots)
        else:
            flat = map_observation(lambda part: part.flatten(0, 1), store.observations(slots))
            newest, seen = self.features(observation), self.features(flat).unflatten(0, live.shape)
        return self.distance(seen, newest.expand_as(seen), live)
