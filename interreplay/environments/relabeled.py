"""Relabeling: a user's reward function, applied to recorded rows and to the steps of an environment."""

from __future__ import annotations

import copy
import hashlib
import inspect
import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import gymnasium as gym
import numpy as np

from interreplay.environments.atari import KEY as LEARNER_VIEW
from interreplay.environments.atari import learner_view
from interreplay.environments.own_modules import import_user_module, locate_error
from interreplay.environments.spaces import as_column
from interreplay.errors import UsageError, accepted_names, did_you_mean
from interreplay.transitions import map_observation

WRAPPER = "interreplay.environments.relabeled:Relabeled"
"""Name of the wrapper `Relabeled`, as in `--wrapper`."""
EXAMPLE = "rewards.py:reward"

RewardFunction = Callable[..., Any]
"""``reward(obs, action, next_obs, **columns)``, see `Relabel`."""


def module_name(reference: str) -> str:
    """Return the name ``module:function`` of a function, given as ``module:function`` or ``file.py:function``.

    A file must be in the current folder; it is imported like other user modules.

    Raises:
        UsageError: The name is malformed, or the file does not exist or is outside of the current folder.
    """
    place, colon, name = reference.rpartition(":")
    if not colon or not name.isidentifier():
        raise UsageError(f"--relabel {reference!r}: expected FILE.py:FUNCTION, such as {EXAMPLE}, or module:function")
    if not place.endswith(".py"):
        return reference
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise UsageError(f"--relabel {reference!r}: there is no file {place}")
    here = Path.cwd().resolve()
    if not path.is_relative_to(here):
        raise UsageError(
            f"--relabel {reference!r}: the file is not in the current folder, {here}; expected a file there, or "
            "module:function of a module that PYTHONPATH finds"
        )
    return f"{'.'.join(path.relative_to(here).with_suffix('').parts)}:{name}"


class Relabel:
    """Recomputes rewards, and terminations if the function also returns them.

    The function is called as ``reward(obs, action, next_obs, **columns)`` with arrays of n rows: observations and
    actions in the environment's units (float64 as float32; a dict of arrays by part for spaces with parts), and the
    columns ``reward``, ``terminated``, ``truncated`` ``(n,)`` as recorded. It returns rewards ``(n,)``, or rewards
    and terminations ``(n,)``.

    Args:
        function: The function, or its name: ``module:function`` or ``file.py:function``.

    Attributes:
        name: Name of the function in messages.
        digest: Hash of the function's name and source file; for a function given as an object, also of its code and of
            the values that it captures.

    Raises:
        UsageError: The function does not exist.
    """

    def __init__(self, function: str | RewardFunction):
        if isinstance(function, str):
            self.name = module_name(function)
            self._function = _import(self.name)
            self.digest = _digest(self._function)
        else:
            self.name = getattr(function, "__qualname__", repr(function))
            self._function = function
            self.digest = _digest(function, _captured(function))

    def __call__(
        self, obs: Any, action: Any, next_obs: Any, columns: Mapping[str, np.ndarray], place: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rewards float32 ``(n,)`` and terminations bool ``(n,)``.

        Args:
            obs: Observations ``(n, ...)``.
            action: Actions ``(n, ...)`` in the environment's units.
            next_obs: Observations after the steps.
            columns: ``reward``, ``terminated`` and ``truncated`` ``(n,)``.
            place: Description of the rows, for messages.

        Raises:
            UsageError: The function raised an error, or returned values of a wrong shape or non-finite rewards.
        """
        rows = (map_observation(np.copy, value) for value in (obs, action, next_obs))  # the function may change them
        given = {name: column.copy() for name, column in columns.items()}
        try:
            found = self._function(*rows, **given)
        except Exception as error:
            raise UsageError(f"relabel {self.name} failed on {place}: {locate_error(error)}") from error
        pair = (found, columns["terminated"])
        if isinstance(found, tuple):
            pair = found
        if len(pair) != 2:
            raise UsageError(
                f"relabel {self.name} returned {len(pair)} values; expected rewards, or rewards and terminations"
            )
        count = len(columns["reward"])
        rewards = self._check("rewards", pair[0], count)
        terminated = self._check("terminations", pair[1], count)
        bad = np.flatnonzero(~np.isfinite(rewards))
        if len(bad):
            raise UsageError(
                f"relabel {self.name} returned {rewards[bad[0]]} for row {bad[0]:,} of {place}; expected finite rewards"
            )
        return rewards.astype(np.float32), terminated.astype(bool)

    def _check(self, what: str, values: Any, count: int) -> np.ndarray:
        try:
            array = np.asarray(values)
            numbers = array.astype(np.float64)
        except (TypeError, ValueError):
            raise UsageError(f"relabel {self.name} returned {what} that are not numbers: {str(values)[:60]}") from None
        if array.shape != (count,):
            raise UsageError(f"relabel {self.name} returned {what} of shape {array.shape}; expected ({count},)")
        return numbers


class Relabeled(gym.Wrapper):
    """Replaces the rewards, and optionally the terminations, of an environment; see `Relabel`.

    In environments with a learner's view (Atari), the stored rewards and terminations are replaced, not the score.

    Args:
        env: The environment.
        function: The function or its name.
        source: The `Relabel.digest` of the function when the run began; None accepts any.

    Raises:
        UsageError: The function does not exist, or its source has changed since the run began.
    """

    def __init__(self, env: gym.Env, function: str | RewardFunction, source: str | None = None):
        super().__init__(env)
        self._relabel = Relabel(function)
        if source is not None and source != self._relabel.digest:
            raise UsageError(
                f"relabel {self._relabel.name} has changed since the run began: its source has the hash "
                f"{self._relabel.digest}; expected {source}; restore the function or start a new run"
            )
        self._obs: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        obs, info = self.env.reset(seed=seed, options=options)
        self._obs = copy.deepcopy(obs)
        return obs, info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        stored_reward, stored_end = learner_view(info, float(reward), terminated)
        columns = {
            "reward": np.array([stored_reward], np.float32),
            "terminated": np.array([stored_end], bool),
            "truncated": np.array([truncated], bool),
        }
        rewards, ends = self._relabel(_row(self._obs), _row(action), _row(obs), columns, "a step")
        self._obs = copy.deepcopy(obs)
        if LEARNER_VIEW in info:  # a lost life ends the stored episode, not the game
            view = (float(rewards[0]), bool(ends[0]), reward, terminated)
            return obs, reward, terminated, truncated, info | {LEARNER_VIEW: view}
        return obs, float(rewards[0]), bool(ends[0]), truncated, info

    def save_state(self) -> dict[str, Any]:
        """Return the current observation."""
        return {"obs": self._obs}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore a saved observation."""
        self._obs = state["obs"]


def _row(value: Any) -> Any:
    """Return one observation or action as arrays with one row, by name if it has parts."""
    return map_observation(lambda part: part[None], as_column(value))


def _import(name: str) -> RewardFunction:
    module, _, function = name.rpartition(":")
    loaded = import_user_module(module, f"--relabel {name!r}", EXAMPLE)
    own = []
    for key, value in vars(loaded).items():
        if inspect.isfunction(value) and value.__module__ == module:
            own.append(key)
    found = vars(loaded).get(function)
    if function not in own:
        reason = f"{function} is not defined in {module}"
        if found is None:
            reason = f"{module} has no function {function!r}"
        hint = did_you_mean(function, own) or accepted_names(function, own)
        raise UsageError(f"--relabel {name!r}: {reason}; {hint}")
    return vars(loaded)[function]


def _digest(function: RewardFunction, captured: bytes = b"") -> str:
    """Return a hash of a function's name, source file and captured values, or of its address without a source."""
    try:
        text = Path(inspect.getsourcefile(function) or "").read_text()
        text += getattr(function, "__qualname__", "")
    except (OSError, TypeError):
        text = _address(function)
    return hashlib.blake2b(text.encode() + captured, digest_size=8).hexdigest()


def _captured(function: Any) -> bytes:
    """Return what can differ between functions of one name and file: code, object, defaults and captured values."""
    code = getattr(function, "__code__", None)
    if code is None:  # an object without a source, whose address is hashed
        return b""
    source = repr((code.co_firstlineno, _describe(code))).encode()
    owner = getattr(function, "__self__", None)
    try:
        captured = [cell.cell_contents for cell in function.__closure__ or ()]
        return source + pickle.dumps((owner, function.__defaults__, function.__kwdefaults__, captured))
    except Exception:  # the values cannot be pickled
        return source + _address(function).encode()


def _describe(constant: Any) -> Any:
    """Return a constant of a function with the same ``repr`` in every process: code by its contents, sets in order."""
    if isinstance(constant, CodeType):
        return constant.co_code, constant.co_names, _describe(constant.co_consts)
    if isinstance(constant, tuple):
        return tuple(map(_describe, constant))
    if isinstance(constant, frozenset):
        return sorted(map(repr, constant))
    return constant


_HASHED_BY_ADDRESS: list[RewardFunction] = []
"""Kept in memory, because the address of a function that is deleted can become that of another one."""


def _address(function: RewardFunction) -> str:
    _HASHED_BY_ADDRESS.append(function)
    return f"{function!r} {os.getpid()}"
