"""State augmentation: transitions with slightly changed states."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.part import standard_normal
from interreplay.storage.columns import Columns, discrete_columns, is_observation
from interreplay.synthesis.base import Synthesized, Synthesizer, reject_without_floats
from interreplay.transitions import Observation, Transitions, join_parts, map_observation, observation_parts, pick

Change = Callable[[Tensor, float, np.random.Generator], Tensor]
"""Maps states ``(n, m, d)``, the strength and a random generator to changed states ``(n, m, d)``."""


def gaussian(states: Tensor, strength: float, rng: np.random.Generator) -> Tensor:
    """Return s + ε, ε ~ N(0, strength²) for every number."""
    return states + strength * standard_normal(states.shape, rng).to(states)


def uniform(states: Tensor, strength: float, rng: np.random.Generator) -> Tensor:
    """Return s + ε, ε ~ U(−strength, strength) for every number."""
    drawn = torch.from_numpy(rng.random(states.shape, dtype=np.float32)).to(states)
    return states + strength * (2.0 * drawn - 1.0)


def scaling(states: Tensor, strength: float, rng: np.random.Generator) -> Tensor:
    """Return ε·s, with one ε ~ U(1 − strength, 1 + strength) per state."""
    drawn = torch.from_numpy(rng.random((*states.shape[:2], 1))).to(states)
    return states * (1.0 + strength * (2.0 * drawn - 1.0))


def dropout(states: Tensor, strength: float, rng: np.random.Generator) -> Tensor:
    """Return s with one random dimension set to 0."""
    dimension = rng.integers(0, states.shape[2], (*states.shape[:2], 1))
    return states.scatter(2, torch.from_numpy(dimension), 0.0)


def switch(states: Tensor, strength: float, rng: np.random.Generator) -> Tensor:
    """Return s with two random dimensions exchanged; unchanged if there is only one."""
    d = states.shape[2]
    if d == 1:
        return states
    one, other = np.divmod(rng.integers(0, d * (d - 1), (*states.shape[:2], 1)), d - 1)
    pair = torch.from_numpy(np.concatenate([one, other + (other >= one)], axis=2))
    return states.scatter(2, pair, states.gather(2, pair.flip(2)))


KINDS: dict[str, tuple[Change | None, float]] = {
    "mixup": (None, 0.4),
    "gaussian": (gaussian, 3e-4),
    "uniform": (uniform, 3e-4),
    "scaling": (scaling, 0.2),
    "dropout": (dropout, 0.0),
    "switch": (switch, 0.0),
}
"""Changes of single states and their strengths; None is the mixup of s with s'."""
WITHOUT_STRENGTH = frozenset({"dropout", "switch"})


class StateAugmentation(Synthesizer):
    """Augmented states with unchanged actions, rewards and flags (S4RL, Sinha et al. 2021, arXiv:2103.06326).

    * ``"mixup"``: s̃ = λs + (1 − λ)s', with one λ ~ Beta(.4, .4) per row. s' does not change, because what follows it is
      not part of the transition. Terminated rows do not change, because their s' has no value.
    * ``"gaussian"``: s + N(0, (3·10⁻⁴)²); ``"uniform"``: s + U(±3·10⁻⁴); for every number of s and s'.
    * ``"scaling"``: s times U(.8, 1.2), drawn separately for s and s'.
    * ``"dropout"``: one dimension is set to 0; ``"switch"``: two are exchanged; drawn separately for s and s'.

    Each part of a Dict observation is augmented, with the same λ for all; discrete parts do not change. The first views
    are `obs` and `next_obs`. With m > 1, ``extras["views_obs"]`` and ``extras["views_next_obs"]`` contain all views
    ``(n, m, ...)``. The parts of a Dict observation are concatenated there by name, float32 ``(n, m, d)``.
    Learners average Q-values and targets over the views.

    Args:
        augmentation: One of the six names.
        views: m ≥ 1.
        strength: α of the Beta distribution, the standard deviation, or the half-width of the uniform distribution;
            the values above by default. ``"dropout"`` and ``"switch"`` have none.

    Raises:
        ValueError: If an argument is out of range, or a strength is given for an augmentation that has none.
    """

    uses_neighbors = False

    def __init__(self, augmentation: str = "mixup", views: int = 1, strength: float | None = None):
        if augmentation not in KINDS:
            raise ValueError(f"augmentation is {augmentation!r}; expected one of {', '.join(KINDS)}")
        check_number("views", views, 1, whole=True)
        if strength is not None and augmentation in WITHOUT_STRENGTH:
            raise ValueError(f"strength is {strength}; expected None, because {augmentation} has no strength")
        if strength is not None:
            check_number("strength", strength, 0, above_low=augmentation == "mixup")
        self.views = int(views)
        self.change, default = KINDS[augmentation]
        self.strength = default if strength is None else float(strength)

    def check(self, columns: Columns) -> None:
        reject_without_floats(columns, "augmented", also=())
        discrete = [name for name in discrete_columns(columns) if is_observation(name)]
        if discrete and self.views > 1:
            raise ValueError(f"views is {self.views}; expected 1, because {discrete[0]} is {columns[discrete[0]][1]}")

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        if self.change is None:
            obs, next_obs = self._mix(anchors, rng)
        else:
            obs = self._change(anchors.obs, rng)
            next_obs = self._change(anchors.next_obs, rng)
        rows = anchors.replace(obs=_first(obs), next_obs=_first(next_obs))
        if self.views > 1:
            views = {"views_obs": _flat_views(obs), "views_next_obs": _flat_views(next_obs)}
            rows = rows.replace(extras={**anchors.extras, **views})
        return Synthesized(rows)

    def _change(self, obs: Observation, rng: np.random.Generator) -> dict[str, Tensor]:
        """Return views ``(n, m, ...)`` of each part of observations."""
        assert self.change is not None
        found = {}
        for name, part in observation_parts(obs).items():
            views = self._repeat(part)
            if part.is_floating_point() and views.numel():
                flat = views.reshape(*views.shape[:2], -1)
                views = self.change(flat, self.strength, rng).view(views.shape)
            found[name] = views
        return found

    def _mix(self, rows: Transitions, rng: np.random.Generator) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return views ``(n, m, ...)`` of the parts of s, mixed with s', and of s'."""
        drawn = torch.from_numpy(rng.beta(self.strength, self.strength, (len(rows), self.views)))
        mix = drawn.to(rows.rewards).masked_fill_(rows.terminated.unsqueeze(1), 1.0)
        ends = observation_parts(map_observation(self._repeat, rows.next_obs))
        mixed = observation_parts(map_observation(self._repeat, rows.obs))
        for name, part in mixed.items():
            if part.is_floating_point():
                share = mix.to(part).view(mix.shape + (1,) * (part.dim() - 2))
                mixed[name] = torch.lerp(ends[name], part, share)
        return mixed, ends

    def _repeat(self, part: Tensor) -> Tensor:
        """Return ``(n, ...)`` as ``(n, m, ...)`` without a copy."""
        return part.unsqueeze(1).expand(len(part), self.views, *part.shape[1:])


def _first(views: dict[str, Tensor]) -> Observation:
    return pick(join_parts(views), (slice(None), 0))


def _flat_views(views: dict[str, Tensor]) -> Tensor:
    """Return all views ``(n, m, ...)``; named parts are concatenated by name, float32 ``(n, m, d)``."""
    if set(views) == {""}:
        return views[""]
    parts = [views[name] for name in sorted(views)]
    return torch.cat([part.reshape(*part.shape[:2], -1).float() for part in parts], dim=2)
