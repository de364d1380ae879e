"""Environments with wrappers around them, and with stacks of observations, as flags ask for them.

A configuration names them by one id, `NAME`, and by plain arguments, so that they are the same in every process, in
studies and in checkpoints.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import FrameStackObservation

from interreplay.environments import registration
from interreplay.environments.own_modules import (
    check_arguments,
    described,
    import_own,
    own_class,
    unchanged_default_dtype,
)
from interreplay.errors import UsageError, exits_as_errors

NAME = "interreplay/Wrapped-v0"


class FrameStack(FrameStackObservation):
    """Gymnasium's stacks of the newest observations, the newest last, which a checkpoint can hold."""

    def save_state(self) -> dict[str, Any]:
        """Return the observations of which the next stack is made."""
        return {"observations": list(self.obs_queue), "padding": self.padding_value}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Continue with the stack that was saved."""
        self.obs_queue = deque(state["observations"], maxlen=self.stack_size)
        self.padding_value = state["padding"]


def named(
    name: str, arguments: Mapping[str, Any], wrappers: Sequence[Mapping[str, Any]] = (), frame_stack: int = 1
) -> tuple[str, dict[str, Any]]:
    """Return an environment's id and arguments as Gymnasium takes them, `NAME` where something is around it.

    Args:
        name: The environment's own id.
        arguments: Its own arguments.
        wrappers: ``{"type": "module:Class", ...}`` each, the first next to the environment.
        frame_stack: Observations that one is made of.
    """
    if not wrappers and frame_stack == 1:
        return name, dict(arguments)
    around = [dict(wrapper) for wrapper in wrappers]  # "wrappers" would be an argument of gymnasium.make_vec itself
    return NAME, {"env": name, "arguments": dict(arguments), "around": around, "frame_stack": frame_stack}


def own_name(name: Any, arguments: Mapping[str, Any]) -> str:
    """Return the id that a user knows an environment by."""
    inside = name == NAME and arguments.get("env")
    return str(inside or (name if isinstance(name, str) else getattr(name, "__name__", repr(name))))


def make(
    env: str,
    arguments: Mapping[str, Any],
    around: Sequence[Mapping[str, Any]] = (),
    frame_stack: int = 1,
    render_mode: str | None = None,
) -> gym.Env:
    """Return an environment with what is around it; arguments as `named` gives them.

    Raises:
        UsageError: A wrapper cannot be made.
    """
    registration.register(env)
    if ":" in env:
        import_own(env.rpartition(":")[0], f"environment {env!r}", "my_envs:Env-v0, which registers it")
    drawn: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    return wrap(gym.make(env, **arguments, **drawn), around, frame_stack)


def wrap(env: gym.Env, wrappers: Sequence[Mapping[str, Any]], frame_stack: int) -> gym.Env:
    """Return `env` within wrappers, and its observations in stacks.

    Raises:
        UsageError: A wrapper cannot be made.
    """
    for wrapper in wrappers:
        env = _wrapped(env, wrapper)
    if frame_stack == 1:
        return env
    try:
        return FrameStack(env, frame_stack)
    except Exception as error:
        raise UsageError(f"frame_stack {frame_stack}: {env.observation_space} cannot be stacked: {error}") from error


def _wrapped(env: gym.Env, wrapper: Mapping[str, Any]) -> gym.Env:
    name, arguments = str(wrapper["type"]), {key: value for key, value in wrapper.items() if key != "type"}
    if ":" not in name:
        raise UsageError(f"wrapper {name!r}: expected module:Class, such as gymnasium.wrappers:{name}")
    kind = own_class(name, gym.Wrapper, "wrapper")
    check_arguments(f"wrapper {name}", kind, arguments, leave_out=("env",))
    try:
        with exits_as_errors(), unchanged_default_dtype():
            return kind(env, **arguments)
    except Exception as error:
        raise UsageError(f"wrapper {name} cannot be made: {described(error)}") from error
