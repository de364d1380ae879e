"""Noise with which policies explore, drawn once per step of the environments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import accepted_names


class Exploration(ABC):
    """What a runner hands to the policy as noise.

    Attributes:
        sigma: Standard deviation of what is drawn anew in each step; actions lie in [−1, 1].
    """

    def __init__(self, sigma: float):
        if not sigma >= 0:
            raise ValueError(f"sigma is {sigma!r}; expected 0 or more")
        self.sigma = float(sigma)

    @abstractmethod
    def draw(self, shape: tuple[int, int], rng: torch.Generator) -> Tensor:
        """Noise ``(environments, actions)`` for the next step, on the device of `rng`."""

    def start(self, which: np.ndarray) -> None:  # noqa: B027 - many have nothing to do
        """Episodes begin in the environments `which` ``(environments,)``, boolean."""

    def state_dict(self) -> dict[str, Any]:
        """What the next noise depends on, beside the random generator."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - many have no state
        """Continue from a state."""


class Gaussian(Exploration):
    """Independent normal noise (Fujimoto et al. 2018, arXiv:1802.09477).

    Args:
        sigma: Its standard deviation.
    """

    def __init__(self, sigma: float = 0.1):
        super().__init__(sigma)

    def draw(self, shape: tuple[int, int], rng: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=rng, device=rng.device).mul_(self.sigma)


class OrnsteinUhlenbeck(Exploration):
    """Noise x that persists over steps: x ← x − θ·x·dt + σ·√dt·N(0, 1), from 0 at the start of an episode.

    As in DDPG (Lillicrap et al. 2016, arXiv:1509.02971), which gives θ and σ but no dt; with 1, x spreads to a
    standard deviation of σ / √(1 − (1 − θ)²), .38 by default.

    Args:
        sigma: Standard deviation of the new part, per √dt.
        theta: Share of x that is lost, per dt; at most 1 / dt.
        dt: Time of one step.
    """

    def __init__(self, sigma: float = 0.2, theta: float = 0.15, dt: float = 1.0):
        super().__init__(sigma)
        if not dt > 0 or not 0 <= theta * dt <= 1:
            raise ValueError(f"theta is {theta!r} and dt {dt!r}; expected a positive dt and theta between 0 and 1 / dt")
        self.theta, self.dt = float(theta), float(dt)
        self._x: Tensor | None = None

    def draw(self, shape: tuple[int, int], rng: torch.Generator) -> Tensor:
        x = torch.zeros(shape, device=rng.device) if self._x is None else self._x.to(rng.device)
        fresh = torch.randn(shape, generator=rng, device=rng.device)
        self._x = x * (1.0 - self.theta * self.dt) + self.sigma * self.dt**0.5 * fresh
        return self._x

    def start(self, which: np.ndarray) -> None:
        if self._x is not None:
            self._x = self._x.masked_fill(torch.as_tensor(which, device=self._x.device).unsqueeze(1), 0.0)

    def state_dict(self) -> dict[str, Any]:
        return {"x": None if self._x is None else self._x.cpu().numpy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._x = None if state["x"] is None else torch.as_tensor(np.array(state["x"]))


KINDS: dict[str, type[Exploration]] = {"Gaussian": Gaussian, "OrnsteinUhlenbeck": OrnsteinUhlenbeck}


def make_exploration(kind: Exploration | Mapping[str, Any]) -> Exploration:
    """Exploration as it is, or from a mapping such as ``{"type": "Gaussian", "sigma": 0.1}``.

    Raises:
        ValueError: When it is neither, or the type or an argument is unknown.
    """
    if isinstance(kind, Exploration):
        return kind
    if not isinstance(kind, Mapping) or "type" not in kind:
        raise ValueError(f"exploration is {kind!r}; expected an Exploration, or its type and arguments by name")
    arguments = dict(kind)
    name = arguments.pop("type")
    if name not in KINDS:
        raise ValueError(f"there is no exploration {name!r}; {accepted_names(str(name), list(KINDS))}")
    try:
        return KINDS[name](**arguments)
    except TypeError as error:
        raise ValueError(f"exploration {name}: {error}") from error
