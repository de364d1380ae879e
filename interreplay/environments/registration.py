"""Packages of environments that are imported when one of their ids is asked for."""

from __future__ import annotations

import importlib.util

from interreplay.environments import dm_control, minatar, own, robotics
from interreplay.environments.atari import ids as atari
from interreplay.environments.current_folder import search_here

BOX2D = ("LunarLander", "BipedalWalker", "CarRacing")


def _has_box2d(name: str) -> bool:
    """Return whether what such an environment of Gymnasium's imports is there; True for all others."""
    return not name.startswith(BOX2D) or all(importlib.util.find_spec(module) for module in ("Box2D", "pygame"))


NAMESPACES = (atari.PREFIX, minatar.PREFIX, dm_control.PREFIX)
"""Beginnings of ids of these packages."""
EXTRAS = {
    "": own.register,
    "robotics": robotics.register,
    "dm-control": dm_control.register,
    "minatar": minatar.register,
    "box2d": _has_box2d,
    "atari": atari.register,
}


def register(name: str) -> str:
    """Let gymnasium know the environment `name`, if it is of a package that is not imported by itself.

    Args:
        name: Its id.

    Returns:
        The extra of this package that would install what is missing, "" where nothing is.
    """
    if ":" in name:  # gymnasium imports the module
        search_here()
    return next((extra for extra, known in EXTRAS.items() if not known(name)), "")
