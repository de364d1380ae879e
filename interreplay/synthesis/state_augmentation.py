"""State augmentation: the same transition, seen a little differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.part import standard_normal
from interreplay.storage.columns import Columns, discrete_columns, is_observation
from interreplay.synthesis.base import Synthesized, Synthesizer, refuse_without_numbers
from interreplay.transitions import Observation, Transitions, join_parts, observation_parts

Change = Callable[[Tensor, float, np.random.Generator], Tensor]
"""States ``(n, m, d)``, the strength and the source of randomness to other states of that shape."""


def gaussian(states: Tensor, strength: float, rng: np.random.Generator) -> Tensor:
    """Return s + ε, ε ~ N(0, strength²) for every number."""
    return states + strength * standard_normal(states.shape, rng, states.device).to(states)


def uniform(states: Tensor, strength: float, rng: np.random.Generator) -> Tensor:
    """Return s + ε, ε ~ U(−strength, strength) for every number."""
    return states + strength * (2.0 * _tensor(rng.random(states.shape, dtype=np.float32), states) - 1.0)


def scaling(states: Tensor, strength: float, rng: np.random.Generator) -> Tensor:
    """Return ε·s, one ε ~ U(1 − strength, 1 + strength) for all numbers of a state."""
    return states * (1.0 + strength * (2.0 * _tensor(rng.random((*states.shape[:2], 1)), states) - 1.0))


def dropout(states: Tensor, strength: float, rng: np.random.Generator) -> Tensor:
    """Return s with one of its dimensions, drawn per state, set to 0."""
    return states.scatter(2, _dimensions(states, rng), 0.0)


def switch(states: Tensor, strength: float, rng: np.random.Generator) -> Tensor:
    """Return s with two of its dimensions, drawn per state, exchanged; with a single one as it is."""
    d = states.shape[2]
    if d == 1:
        return states
    one, other = np.divmod(rng.integers(0, d * (d - 1), (*states.shape[:2], 1)), d - 1)
    pair = torch.from_numpy(np.concatenate([one, other + (other >= one)], axis=2)).to(states.device)
    return states.scatter(2, pair, states.gather(2, pair.flip(2)))


def _dimensions(states: Tensor, rng: np.random.Generator) -> Tensor:
    return torch.from_numpy(rng.integers(0, states.shape[2], (*states.shape[:2], 1))).to(states.device)


def _tensor(values: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(values).to(like)


class Kind(NamedTuple):
    """An augmentation of states on their own; None for the mixup of s with s'."""

    change: Change | None
    strength: float


KINDS = {
    "mixup": Kind(None, 0.4),
    "gaussian": Kind(gaussian, 3e-4),
    "uniform": Kind(uniform, 3e-4),
    "scaling": Kind(scaling, 0.2),
    "dropout": Kind(dropout, 0.0),
    "switch": Kind(switch, 0.0),
}


class StateAugmentation(Synthesizer):
    """Augmented states; actions, rewards and flags as they are (S4RL, Sinha et al. 2021, arXiv:2103.06326).

    * ``"mixup"``: s̃ = λs + (1 − λ)s', λ ~ Beta(.4, .4), one per row. s' stays: what follows it is not part of the
      transition. A row that terminated stays as it is, its s' having no value to be near to.
    * ``"gaussian"``: + N(0, (3·10⁻⁴)²), ``"uniform"``: + U(±3·10⁻⁴), for every number of s and of s';
    * ``"scaling"``: times U(.8, 1.2), one for s and one for s';
    * ``"dropout"``: one dimension becomes 0; ``"switch"``: two are exchanged; drawn apart for s and s'.

    Of a Dict observation each part is augmented so, with one λ for all; parts that are choices stay. With m views,
    ``extras["views_obs"]`` and ``extras["views_next_obs"]`` hold all of them ``(n, m, ...)``, the first of which are
    `obs` and `next_obs`; the parts of a Dict observation lie there side by side by name, float32 ``(n, m, d)``.
    Learners average Q-values and targets over the views.

    Args:
        augmentation: One of the six.
        views: m ≥ 1.
        strength: α of the Beta, the standard deviation, or the half-width of the uniform distribution, as given above
            by default.

    Raises:
        ValueError: When an argument is not one of those.
    """

    uses_neighbors = False

    def __init__(self, augmentation: str = "mixup", views: int = 1, strength: float | None = None):
        if augmentation not in KINDS:
            raise ValueError(f"augmentation is {augmentation!r}; expected one of {', '.join(KINDS)}")
        check_number("views", views, 1, whole=True)
        if strength is not None:
            check_number("strength", strength, 0, above_low=augmentation == "mixup")
        self.augmentation, self.views = augmentation, int(views)
        self.change, self.strength = KINDS[augmentation]
        if strength is not None:
            self.strength = float(strength)

    def check(self, columns: Columns) -> None:
        refuse_without_numbers(columns, "augmented", also=())
        choices = [name for name in discrete_columns(columns) if is_observation(name)]
        if choices and self.views > 1:
            raise ValueError(f"views is {self.views}; expected 1 where {choices[0]} is of {columns[choices[0]][1]}")

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        obs, next_obs = self._mixed(anchors, rng) if self.change is None else self._changed(anchors, rng)
        rows = anchors.replace(obs=first(obs), next_obs=first(next_obs))
        if self.views == 1:
            return Synthesized(rows)
        views = {"views_obs": wide(obs), "views_next_obs": wide(next_obs)}
        return Synthesized(rows.replace(extras={**anchors.extras, **views}))

    def _changed(self, rows: Transitions, rng: np.random.Generator) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return views ``(n, m, ...)`` of the parts of s and of s', each changed on its own."""
        change, m = self.change, self.views
        assert change is not None

        def views(obs: Observation) -> dict[str, Tensor]:
            return {
                name: change(_flat(_repeat(part, m)), self.strength, rng).view(len(part), m, *part.shape[1:])
                if part.is_floating_point()
                else _repeat(part, m)
                for name, part in observation_parts(obs).items()
            }

        return views(rows.obs), views(rows.next_obs)

    def _mixed(self, rows: Transitions, rng: np.random.Generator) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return views ``(n, m, ...)`` of the parts of s, mixed with s', and of s'."""
        drawn = torch.from_numpy(rng.beta(self.strength, self.strength, (len(rows), self.views)))
        mix = drawn.to(rows.rewards).masked_fill_(rows.terminated.unsqueeze(1), 1.0)
        ends = {name: _repeat(part, self.views) for name, part in observation_parts(rows.next_obs).items()}
        mixed = {name: _repeat(part, self.views) for name, part in observation_parts(rows.obs).items()}
        for name, part in observation_parts(rows.obs).items():
            if not part.is_floating_point():
                continue
            share = mix.to(part).view(mix.shape + (1,) * (part.dim() - 1))
            mixed[name] = torch.lerp(ends[name], mixed[name], share)
        return mixed, ends


def _repeat(part: Tensor, m: int) -> Tensor:
    """Return ``(n, ...)`` as ``(n, m, ...)`` without a copy."""
    return part.unsqueeze(1).expand(len(part), m, *part.shape[1:])


def _flat(part: Tensor) -> Tensor:
    """Return ``(n, m, ...)`` as ``(n, m, d)``."""
    return part.reshape(*part.shape[:2], -1)


def first(views: dict[str, Tensor]) -> Observation:
    """Return the first view of every row."""
    return join_parts({name: part[:, 0] for name, part in views.items()})


def wide(views: dict[str, Tensor]) -> Tensor:
    """Return all views ``(n, m, ...)``; named parts side by side by name, float32 ``(n, m, d)``."""
    if set(views) == {""}:
        return views[""]
    return torch.cat([_flat(views[name]).float() for name in sorted(views)], dim=2)
