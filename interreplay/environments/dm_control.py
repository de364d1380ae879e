"""The DeepMind control suite, through shimmy: imported when one of its ids is asked for, observations made flat.

Its observations are dictionaries of float64 boxes. Here they are one vector of float32 numbers, the parts side by side
as the suite orders them, so that every replay method and every algorithm takes them.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import WrapperSpec

from interreplay.environments.rendering import choose_backend

PREFIX = "dm_control/"
PACKAGES = ("shimmy", "dm_control")


class FlatObservation(gym.ObservationWrapper):
    """Observations of any space as one vector of float32 numbers."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        space = gym.spaces.flatten_space(env.observation_space)
        assert isinstance(space, gym.spaces.Box)
        low, high = (bound.astype(np.float32) for bound in (space.low, space.high))
        self.observation_space = gym.spaces.Box(low, high, dtype=np.float32)

    def observation(self, observation: object) -> np.ndarray:
        """Return the vector ``(d,)`` of an observation."""
        return np.asarray(gym.spaces.flatten(self.env.observation_space, observation), dtype=np.float32)


FLAT = WrapperSpec(FlatObservation.__name__, f"{__name__}:{FlatObservation.__name__}", {})


def register(name: str) -> bool:
    """Let gymnasium know the environment `name`, if it is of this suite; nothing is imported for others.

    Args:
        name: Id such as ``dm_control/cheetah-run-v0``.

    Returns:
        False where it is of the suite and a package is not installed.
    """
    if not name.startswith(PREFIX):
        return True
    if any(importlib.util.find_spec(package) is None for package in PACKAGES):
        return False
    choose_backend()
    with warnings.catch_warnings():  # what they import turns on every warning there is
        importlib.import_module("shimmy")
    for key, spec in gym.registry.items():
        if key.startswith(PREFIX) and FLAT not in spec.additional_wrappers:
            spec.additional_wrappers += (FLAT,)
    return True
