"""Packages of environments that are imported when one of their ids is asked for."""

from __future__ import annotations

from interreplay.environments import dm_control, minatar, own, robotics
from interreplay.environments.atari import ids as atari
from interreplay.environments.current_folder import search_here

EXTRAS = {
    "": own.register,
    "robotics": robotics.register,
    "dm-control": dm_control.register,
    "minatar": minatar.register,
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
