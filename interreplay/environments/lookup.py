"""Lookup of environments by the id that a user gives."""

from __future__ import annotations

import contextlib
import inspect
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import find_highest_version, load_env_creator, parse_env_id

from interreplay.environments import registration
from interreplay.environments.own_modules import check_arguments, import_user_module, locate_error
from interreplay.environments.spaces import check_numbers, leaves, split_parts
from interreplay.environments.wrapped import wrap
from interreplay.errors import UsageError, accepted_names, did_you_mean, exits_as_errors
from interreplay.storage.frame_stacks import are_stacks
from interreplay.transitions import as_tensor


class Environment(NamedTuple):
    """An environment's current id and its spaces.

    Attributes:
        name: The id to train with.
        observation_space: Space of one observation.
        action_space: Space of one action.
        stacks: Parts of the observation that are stacks of frames; each frame is stored once.
        note: One line if ``name`` differs from the given id, else ``""``.
    """

    name: str
    observation_space: gym.Space
    action_space: gym.Space
    note: str
    stacks: tuple[str, ...] = ()

    @property
    def spaces(self) -> tuple[gym.Space, gym.Space]:
        """Space of one observation, and space of one action."""
        return self.observation_space, self.action_space


def find_environment(
    env_id: str,
    arguments: Mapping[str, Any] | None = None,
    wrappers: Sequence[Mapping[str, Any]] = (),
    frame_stack: int = 1,
) -> Environment:
    """Return the environment of an id; ids of retired versions return the newest version.

    Args:
        env_id: A registered id such as ``HalfCheetah-v5``, or ``module:Env-v0``.
        arguments: Arguments of the environment, in addition to the registered ones.
        wrappers: Wrappers, see `interreplay.environments.wrapped.make_id`.
        frame_stack: Number of observations per stacked observation.

    Raises:
        UsageError: The environment does not exist, or it or a wrapper cannot be created.
    """
    gym.logger.min_level = gym.logger.ERROR
    missing = registration.register(env_id)
    if ":" in env_id:
        import_user_module(env_id.rpartition(":")[0], f"environment {env_id!r}", "my_envs:Env-v0, which registers it")
    if missing:
        raise UsageError(
            f"environment {env_id!r} needs a package; install it with: pip install 'interreplay[{missing}]'"
        )
    name, reason = _current_name(env_id)
    note = f"{env_id} {reason}; using {name}" if reason else ""
    env = _make(name, env_id, arguments or {})
    if frame_stack > 1 and "frame_stack" in _parameters(name):
        raise UsageError(f"{name} stacks frames itself; use --env_kwargs frame_stack={frame_stack}")
    env = wrap(env, wrappers, frame_stack)
    try:
        check_numbers("observation", env.observation_space)
        check_numbers("action", env.action_space)
        with exits_as_errors():
            stacks = _stacks(env)
    except ValueError as error:
        raise UsageError(f"environment {name!r}: {error}") from error
    except Exception as error:
        raise UsageError(f"environment {name!r}: {locate_error(error)}") from error
    with contextlib.suppress(Exception), exits_as_errors():  # a run reports such errors at its end
        env.close()
    return Environment(name, env.observation_space, env.action_space, note=note, stacks=stacks)


def _make(name: str, env_id: str, arguments: Mapping[str, Any]) -> gym.Env:
    try:
        with warnings.catch_warnings(), exits_as_errors():
            warnings.simplefilter("ignore")
            if arguments and _parameters(name):
                check_arguments(f"environment {name!r}", _creator(name), arguments, leave_out=("self", "render_mode"))
            return gym.make(name, **arguments)
    except gym.error.UnregisteredEnv:
        raise UsageError(f"unknown environment {env_id!r}; {_nearest_names(env_id)}") from None
    except UsageError:
        raise
    except Exception as error:
        reason = locate_error(error)
        if isinstance(error, ImportError | gym.error.Error) or (arguments and isinstance(error, ValueError)):
            reason = str(error)
        raise UsageError(f"environment {name!r} cannot be created: {reason}") from error


def _creator(name: str) -> Any:
    """Return the class or function that creates an environment, or None if it is unknown."""
    spec = gym.registry.get(name.rpartition(":")[2])
    entry_point = spec and spec.entry_point
    return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


def _parameters(name: str) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of an environment by name, {} if they are unknown."""
    creator = _creator(name)
    if creator is None:
        return {}
    return inspect.signature(creator).parameters


def _stacks(env: gym.Env) -> tuple[str, ...]:
    """Return the parts of the observation that are stacks of images and shift by one frame per step."""
    try:
        parts = leaves(env.observation_space)
    except ValueError:  # later checks reject it with a better message
        return ()
    if not any(part.dtype == np.uint8 for part in parts.values()):
        return ()
    obs, _ = env.reset(seed=0)
    following, *_ = env.step(env.action_space.sample())
    before = split_parts(obs)
    after = split_parts(following)
    stacks = []
    for name in parts:
        if are_stacks(as_tensor(before[name])[None], as_tensor(after[name])[None]):
            stacks.append(name)
    return tuple(stacks)


def _current_name(env_id: str) -> tuple[str, str]:
    """Return the id to create, and the reason if it differs from the given one."""
    prefix, colon, bare = env_id.rpartition(":")
    try:
        namespace, name, version = parse_env_id(bare)
    except gym.error.Error:
        return env_id, ""
    newest = find_highest_version(namespace, name)
    if newest is None or (version is not None and (version >= newest or not _is_retired(bare))):
        return env_id, ""
    current = re.sub(r"(-v\d+)?$", f"-v{newest}", bare, count=1)
    if version is None:
        return prefix + colon + current, "has no version"
    return prefix + colon + current, "is retired"


def _is_retired(name: str) -> bool:
    """Return whether a version only raises an explanation or requires mujoco-py."""
    spec = gym.registry.get(name)
    if spec is None:
        return True
    if isinstance(spec.entry_point, str):
        # gymnasium-robotics registers versions 2 and 3 of Gymnasium's own environments again; they require mujoco-py.
        return ":MujocoPy" in spec.entry_point or spec.entry_point.startswith("gymnasium_robotics.envs.mujoco.")
    return getattr(spec.entry_point, "__name__", "").startswith("_raise")


def _nearest_names(env_id: str) -> str:
    """Return which environment may be meant: one of the named module's own, if there are any, else a registered one."""
    module, _, bare = env_id.rpartition(":")
    own = []
    for name, spec in gym.registry.items():
        home = getattr(spec.entry_point, "__module__", "")
        if isinstance(spec.entry_point, str):
            home = spec.entry_point.partition(":")[0]
        if module and f"{home}.".startswith(f"{module}."):
            own.append(name)
    if own:
        return accepted_names(bare, own)
    for namespace in registration.NAMESPACES:  # registered on request
        registration.register(namespace + _strip_id(env_id))
    names = [name for name in gym.registry if not _is_retired(name)]
    same = [name for name in names if _strip_id(name).lower() == _strip_id(env_id).lower()]
    # our own namespaces before bare ids: Pong-v0 is ale-py's own, without our wrappers
    same.sort(key=lambda name: (name.lower() != env_id.lower(), not name.startswith(registration.NAMESPACES), name))
    if same:
        return f"did you mean {' or '.join(same[:3])}?"
    near = did_you_mean(env_id, names, most=3)
    return near or "gymnasium.pprint_registry() lists the registered ones; module:Env-v0 imports a module first"


def _strip_id(name: str) -> str:
    """Return an id without its namespace and version."""
    return re.sub(r"-v\d+$", "", name.rpartition("/")[2])
