"""Registration of environments with Gymnasium, when one of their ids is requested."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io

import gymnasium as gym

from interreplay.environments import dm_control, minatar
from interreplay.environments.atari import ids as atari
from interreplay.environments.own_modules import search_here

PREFIX = "interreplay/"
OURS = {
    "Catch-v0": ("catch:Catch", None),
    "GoalMountainCar-v0": ("goal_tasks:GoalMountainCar", 200),
    "GoalAcrobot-v0": ("goal_tasks:GoalAcrobot", 500),
    "Wrapped-v0": ("wrapped:make", None),
}
"""Entry point and maximum number of steps per episode of the environments of this package."""
ROBOTICS = ("Fetch", "PointMaze_", "AntMaze_", "Hand", "Adroit", "FrankaKitchen")
BOX2D = ("LunarLander", "BipedalWalker", "CarRacing")


def register_ours(name: str) -> bool:
    """Register the environments of this package if `name` is one of them; always return True."""
    if not name.startswith(PREFIX):
        return True
    for short, (place, max_episode_steps) in OURS.items():
        if PREFIX + short in gym.registry:
            continue
        wrapped = short == "Wrapped-v0"  # Gymnasium's own wrappers are already around the inner environment
        gym.register(
            PREFIX + short,
            entry_point=f"interreplay.environments.{place}",
            max_episode_steps=max_episode_steps,
            order_enforce=not wrapped,
            disable_env_checker=wrapped,
        )
    return True


def register_robotics(name: str) -> bool:
    """Import gymnasium-robotics if `name` is one of its environments; return False if it is not installed."""
    if name in gym.registry or not name.startswith(ROBOTICS):
        return True
    if importlib.util.find_spec("gymnasium_robotics") is None:
        return False
    with contextlib.redirect_stderr(io.StringIO()):  # the import prints a notice about three Adroit environments
        importlib.import_module("gymnasium_robotics")
    return True


def has_box2d(name: str) -> bool:
    """Return False if `name` is a Box2D environment of Gymnasium and its packages are not installed."""
    return not name.startswith(BOX2D) or all(importlib.util.find_spec(module) for module in ("Box2D", "pygame"))


NAMESPACES = (atari.PREFIX, minatar.PREFIX, dm_control.PREFIX)
"""Prefixes of the ids of these packages."""
EXTRAS = {
    "": register_ours,
    "robotics": register_robotics,
    "dm-control": dm_control.register,
    "minatar": minatar.register,
    "box2d": has_box2d,
    "atari": atari.register,
}


def register(name: str) -> str:
    """Register the environment `name` if its package does not do so by itself.

    Args:
        name: Id of the environment.

    Returns:
        The extra of this package that installs the missing packages, "" if none are missing.
    """
    if ":" in name:  # gymnasium imports the module
        search_here()
    return next((extra for extra, registered in EXTRAS.items() if not registered(name)), "")
