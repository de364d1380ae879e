"""Registration of environments with Gymnasium, when one of their ids is requested."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import WrapperSpec

from interreplay.environments import atari, minatar
from interreplay.environments.own_modules import check_outside_of_runs, search_current_folder
from interreplay.environments.rendering import choose_backend

PREFIX = "interreplay/"
PLACE = "interreplay.environments"
WRAPPED = f"{PREFIX}Wrapped-v0"
"""Id of environments with wrappers or stacked observations, see `interreplay.environments.wrapped`."""
OURS: dict[str, dict[str, Any]] = {
    f"{PREFIX}Catch-v0": {"entry_point": f"{PLACE}.catch:Catch"},
    f"{PREFIX}GoalMountainCar-v0": {"entry_point": f"{PLACE}.goal_tasks:GoalMountainCar", "max_episode_steps": 200},
    f"{PREFIX}GoalAcrobot-v0": {"entry_point": f"{PLACE}.goal_tasks:GoalAcrobot", "max_episode_steps": 500},
    # Gymnasium's own wrappers are already around the inner environment.
    WRAPPED: {"entry_point": f"{PLACE}.wrapped:make", "order_enforce": False, "disable_env_checker": True},
}
"""Arguments of `gymnasium.register` by id, for the environments of this package."""


def register_ours() -> None:
    """Register the environments of this package."""
    for name, options in OURS.items():
        if name not in gym.registry:
            gym.register(name, **options)


def register_robotics() -> None:
    """Import gymnasium-robotics, which registers its environments."""
    with contextlib.redirect_stderr(io.StringIO()):  # the import prints a notice about three Adroit environments
        importlib.import_module("gymnasium_robotics")


class FlatObservation(gym.ObservationWrapper):
    """Flattens observations of any space, in the DeepMind control suite Dicts of float64, to one float32 vector."""

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


def register_dm_control() -> None:
    """Register the DeepMind control suite, through shimmy, with flattened observations."""
    choose_backend()
    with warnings.catch_warnings():  # their imports enable all warnings
        importlib.import_module("shimmy")
    for key, spec in gym.registry.items():
        if key.startswith("dm_control/") and FLAT not in spec.additional_wrappers:
            spec.additional_wrappers += (FLAT,)


ROBOTICS = ("Fetch", "PointMaze_", "AntMaze_", "Hand", "Adroit", "FrankaKitchen")
FAMILIES: tuple[tuple[str, tuple[str, ...], tuple[str, ...], Callable[[], None]], ...] = (
    ("", (PREFIX,), (), register_ours),
    ("robotics", ROBOTICS, ("gymnasium_robotics",), register_robotics),
    ("dm-control", ("dm_control/",), ("shimmy", "dm_control"), register_dm_control),
    ("minatar", ("MinAtar/",), ("minatar",), minatar.register),
    ("box2d", ("LunarLander", "BipedalWalker", "CarRacing"), ("Box2D", "pygame"), lambda: None),
    ("atari", ("ALE/",), ("ale_py", "cv2"), atari.register),
)
"""For each extra of this package: prefixes of ids, the modules that it installs, and a function that registers the
environments, unless Gymnasium does so; it may be called several times."""
NAMESPACES = ("ALE/", "MinAtar/", "dm_control/")
"""Prefixes of the ids of other packages."""


def register(name: str) -> str:
    """Register an environment such as ``MinAtar/Breakout-v0`` or ``PongNoFrameskip-v4``, unless its package does so.

    Return the extra of this package that installs the missing packages, "" if none are missing.

    Raises:
        UsageError: The id names a module within the folder of a run.
    """
    if ":" in name:  # gymnasium imports the module
        check_outside_of_runs(name.rpartition(":")[0], f"environment {name!r}")
        search_current_folder()
    for extra, prefixes, packages, register_family in FAMILIES:
        if name.startswith(prefixes) or (extra == "atari" and atari.RETIRED in name):
            if not all(map(importlib.util.find_spec, packages)):
                return extra
            register_family()
    return ""


def inner_env_name(name: Any, arguments: Mapping[str, Any]) -> str:
    """Return the id of the inner environment, or a readable name."""
    if name == WRAPPED and "env" in arguments:
        return str(arguments["env"])
    return name if isinstance(name, str) else getattr(name, "__name__", type(name).__name__)
