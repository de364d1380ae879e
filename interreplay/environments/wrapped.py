"""Environments with wrappers and stacked observations.

A configuration refers to them by one id, `NAME`, and by plain arguments, so that every process, study and checkpoint
creates the same environment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import FrameStackObservation

from interreplay.environments import registration
from interreplay.environments.own_modules import check_arguments, import_user_class, import_user_module, locate_error
from interreplay.errors import UsageError, exits_as_errors

NAME = registration.WRAPPED


class FrameStack(FrameStackObservation):
    """Stacks the latest observations, the newest last. Its state can be saved in a checkpoint."""

    def save_state(self) -> dict[str, Any]:
        """Return the observations of the current stack."""
        return {"observations": list(self.obs_queue), "padding": self.padding_value}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore a saved stack."""
        self.obs_queue = deque(state["observations"], maxlen=self.stack_size)
        self.padding_value = state["padding"]


def make_id(
    name: str, arguments: Mapping[str, Any], wrappers: Sequence[Mapping[str, Any]] = (), frame_stack: int = 1
) -> tuple[str, dict[str, Any]]:
    """Return the id and arguments for `gymnasium.make`; the id is `NAME` for a wrapped or stacked environment.

    `name` and `arguments` belong to the inner environment. Each wrapper is ``{"type": "module:Class", ...}``, the
    innermost first. `frame_stack` is the number of observations per stacked observation.
    """
    if not wrappers and frame_stack == 1:
        return name, dict(arguments)
    around = list(map(dict, wrappers))  # "wrappers" would be an argument of gymnasium.make_vec itself
    return NAME, {"env": name, "arguments": dict(arguments), "around": around, "frame_stack": frame_stack}


def make(
    env: str,
    arguments: Mapping[str, Any],
    around: Sequence[Mapping[str, Any]] = (),
    frame_stack: int = 1,
    render_mode: str | None = None,
) -> gym.Env:
    """Create a wrapped environment from the arguments that `make_id` returns."""
    registration.register(env)
    if ":" in env:
        import_user_module(env.rpartition(":")[0], f"environment {env!r}", "my_envs:Env-v0, which registers it")
    if render_mode is not None:
        arguments = {**arguments, "render_mode": render_mode}
    return wrap(gym.make(env, **arguments), around, frame_stack)


def wrap(env: gym.Env, wrappers: Sequence[Mapping[str, Any]], frame_stack: int) -> gym.Env:
    """Wrap `env` and stack its observations."""
    for wrapper in wrappers:
        arguments = dict(wrapper)
        name = str(arguments.pop("type", ""))
        if ":" not in name:
            example = f"gymnasium.wrappers:{name or 'ClipReward'}"
            raise UsageError(f"wrapper {name!r}: expected module:Class, such as {example}")
        kind = import_user_class(name, gym.Wrapper, "wrapper")
        check_arguments(f"wrapper {name}", kind, arguments, leave_out=("env",))
        try:
            with exits_as_errors():
                env = kind(env, **arguments)
        except Exception as error:
            raise UsageError(f"wrapper {name} cannot be created: {locate_error(error)}") from error
    if frame_stack == 1:
        return env
    try:
        return FrameStack(env, frame_stack)
    except Exception as error:
        raise UsageError(f"frame_stack {frame_stack}: {env.observation_space} cannot be stacked: {error}") from error
