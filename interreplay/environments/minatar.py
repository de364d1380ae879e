"""MinAtar: five Atari games on 10×10 grids, from the package ``minatar`` (extra ``minatar``)."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium as gym
import numpy as np

from interreplay.environments.imports import suppress_logged_warnings

PREFIX = "MinAtar/"
GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")


class MinAtar(gym.Env):
    """A game of MinAtar (Young & Tian 2019, arXiv:1903.03176) with 10 % sticky actions and growing difficulty.

    Observations are ``(C, 10, 10)`` bool, with the channels first.

    Args:
        game: Name of the game, one of `GAMES`.
        minimal_actions: Whether to offer only the actions that have an effect in this game.
    """

    def __init__(self, game: str, minimal_actions: bool = False):
        self.game = _package().Environment(game)
        self._actions = self.game.minimal_action_set() if minimal_actions else list(range(self.game.num_actions()))
        height, width, channels = self.game.state_shape()
        self.observation_space = gym.spaces.Box(0, 1, (channels, height, width), bool)  # type: ignore[arg-type]
        self.action_space = gym.spaces.Discrete(len(self._actions))

    @property
    def np_random(self) -> np.random.Generator:
        """Gymnasium's generator; a new one also seeds the generator of the game."""
        return super().np_random

    @np_random.setter
    def np_random(self, generator: np.random.Generator) -> None:
        self._np_random = generator
        self._np_random_seed = -1  # unknown, as in Gymnasium
        self.game.seed(int(generator.integers(2**32)))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(seed)
            self.game.last_action = 0
        self.game.reset()
        return self._pixels(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        reward, over = self.game.act(self._actions[int(action)])
        return self._pixels(), float(reward), bool(over), False, {}

    def _pixels(self) -> np.ndarray:
        return np.ascontiguousarray(self.game.state().transpose(2, 0, 1))

    def save_state(self) -> dict[str, Any]:
        """Return the state of the game and of its random generator as plain values."""
        inner = {name: value for name, value in vars(self.game.env).items() if name not in _FIXED}
        _, keys, *more = self.game.random.get_state()
        return {"last_action": self.game.last_action, "game": inner, "keys": keys, "random": more}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `save_state` returned."""
        self.game.last_action = state["last_action"]
        vars(self.game.env).update(state["game"])
        self.game.random.set_state(("MT19937", state["keys"], *state["random"]))
        self.game.env.random = self.game.random


_FIXED = ("channels", "action_map", "random")
"""Constants of a game, and its random generator."""


def _package() -> Any:
    with suppress_logged_warnings():  # the import warns that it cannot render
        return importlib.import_module("minatar")


def register() -> None:
    """Register the games; -v0 has all six actions, -v1 the minimal ones."""
    for game in GAMES:
        for version in (0, 1):
            made = f"{PREFIX}{game.title().replace('_', '')}-v{version}"
            arguments = {"game": game, "minimal_actions": version == 1}
            # Replaces the package's environments: their resets ignore the seed, and their state cannot be saved.
            gym.registry[made] = gym.envs.registration.EnvSpec(
                made, entry_point=f"{__name__}:{MinAtar.__name__}", kwargs=arguments
            )
