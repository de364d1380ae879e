"""Ids of Atari games: ``ALE/Pong-v5``, and the retired ``PongNoFrameskip-v4`` without sticky actions."""

from __future__ import annotations

import importlib
import importlib.util

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

PREFIX, RETIRED = "ALE/", "NoFrameskip"
PACKAGES = ("ale_py", "cv2")
THEIRS, OURS = "ale_py.env:AtariEnv", "interreplay.environments.atari.game:Atari"


def is_atari(name: str) -> bool:
    """Return whether an id is one of an Atari game."""
    return name.startswith(PREFIX) or RETIRED in name


def register(name: str) -> bool:
    """Register the games if `name` is one of them.

    Args:
        name: Id such as ``ALE/Pong-v5``, whose actions are sticky, or ``PongNoFrameskip-v4``.

    Returns:
        False if `name` is a game and a package is not installed.
    """
    if not is_atari(name):
        return True
    if any(importlib.util.find_spec(package) is None for package in PACKAGES):
        return False
    importlib.import_module("ale_py")  # registers its own environments
    for spec in list(gym.registry.values()):
        if spec.entry_point == THEIRS and is_atari(spec.id):
            sticky = spec.kwargs["repeat_action_probability"]
            arguments = {"game": spec.kwargs["game"], "sticky": sticky}
            gym.registry[spec.id] = EnvSpec(spec.id, entry_point=OURS, kwargs=arguments)
    return True
