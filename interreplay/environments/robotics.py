"""gymnasium-robotics, the package of goal-conditioned environments, is imported when one of its ids is asked for."""

from __future__ import annotations

import contextlib
import importlib.util
import io

import gymnasium as gym

PACKAGE = "gymnasium_robotics"
FAMILIES = ("Fetch", "PointMaze_", "AntMaze_", "Hand", "Adroit", "FrankaKitchen")


def register(name: str) -> bool:
    """Let gymnasium know the environment `name`, if it is of this package; nothing is imported for others.

    Args:
        name: Id such as ``FetchReach-v4``, in any version.

    Returns:
        False where it is of the package and that is not installed.
    """
    if name in gym.registry or not name.startswith(FAMILIES):
        return True
    if importlib.util.find_spec(PACKAGE) is None:
        return False
    # What the import writes there is a notice about the rewards of three Adroit environments.
    with contextlib.redirect_stderr(io.StringIO()):
        importlib.import_module(PACKAGE)
    return True
