"""The DeepMind control suite, through shimmy, with flattened observations.

The suite's observations are dictionaries of float64 boxes. Here they are concatenated to one float32 vector, which all
replay methods and algorithms support.
"""

from __future__ import annotations

import importlib
import warnings

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import WrapperSpec

from interreplay.environments.rendering import choose_backend

PREFIX = "dm_control/"


class FlatObservation(gym.ObservationWrapper):
    """Flattens observations of any space to one float32 vector."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        space = gym.spaces.flatten_space(env.observation_space)
        assert isinstance(space, gym.spaces.Box)
        low = space.low.astype(np.float32)
        self.observation_space = gym.spaces.Box(low, space.high.astype(np.float32), dtype=np.float32)

    def observation(self, observation: object) -> np.ndarray:
        """Return an observation as a vector ``(d,)``."""
        return np.asarray(gym.spaces.flatten(self.env.observation_space, observation), dtype=np.float32)


FLAT = WrapperSpec(FlatObservation.__name__, f"{__name__}:{FlatObservation.__name__}", {})


def register() -> None:
    """Register the suite, with flattened observations."""
    choose_backend()
    with warnings.catch_warnings():  # their imports enable all warnings
        importlib.import_module("shimmy")
    for key, spec in gym.registry.items():
        if key.startswith(PREFIX) and FLAT not in spec.additional_wrappers:
            spec.additional_wrappers += (FLAT,)
