"""Flags about the environment: its arguments, what is around it, and how long its episodes are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interreplay.environments.lookup import Environment, find_environment
from interreplay.environments.wrapped import named
from interreplay.experiments.flags.part_flags import named_part
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.values import assignments, whole

ENVIRONMENT_FLAGS = (
    Flag(
        "env_args",
        assignments,
        {},
        "arguments of the environment, such as reward_clipping=none full_action_space=true",
        aliases=("env_kwargs",),
        many=True,
    ),
    Flag(
        "wrapper",
        named_part,
        (),
        "module:Class of a gymnasium.Wrapper with its arguments, such as my_envs:Scaled factor=2; may be repeated, the "
        "first is next to the environment",
        many=True,
        repeat=True,
    ),
    Flag("frame_stack", whole(1), 1, "newest observations that one is made of, around all wrappers"),
    Flag(
        "horizon",
        whole(1),
        None,
        "steps after which an episode is cut off (default: the environment's own)",
        aliases=("max_episode_steps",),
    ),
)


def environment_of(settings: Mapping[str, Any]) -> Environment:
    """Return the environment that the settings of a run mean, with what is around it.

    Raises:
        UsageError: There is none, or it cannot be made.
    """
    return find_environment(settings["env"], settings["env_args"], settings["wrapper"], settings["frame_stack"])


def environment_config(settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the id and the arguments by which a configuration makes this environment."""
    limit = {"max_episode_steps": settings["horizon"]} if settings["horizon"] else {}
    arguments = {**settings["env_args"], **limit}
    return named(settings["env"], arguments, settings["wrapper"], settings["frame_stack"])
