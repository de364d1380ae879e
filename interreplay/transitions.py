"""Transitions: columns of one length, the currency between all parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

Observation = Tensor | dict[str, Tensor]
ArrayLike = Any
"""A numpy array, a torch tensor, or anything that numpy turns into one."""


def as_tensor(values: ArrayLike) -> Tensor:
    """A tensor over `values`, sharing memory with numpy arrays and tensors where it can."""
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def map_observation(fn: Callable[..., Tensor], *observations: Observation) -> Observation:
    """Apply `fn` to an observation, or to each named part of a Dict observation."""
    first = observations[0]
    if isinstance(first, dict):
        return {name: fn(*(o[name] for o in observations)) for name in first}  # type: ignore[index,call-overload]
    return fn(*observations)


def observation_parts(obs: Observation) -> dict[str, Tensor]:
    """The named tensors of an observation; a plain one is the single part ``""``."""
    return dict(obs) if isinstance(obs, dict) else {"": obs}


def join_parts(parts: dict[str, Tensor]) -> Observation:
    """The inverse of `observation_parts`."""
    return parts[""] if set(parts) == {""} else parts


@dataclass(frozen=True, eq=False)
class Transitions:
    """n transitions as columns, each a tensor whose first dimension is n.

    Numpy arrays are taken as they are, without a copy where numpy and torch can share memory. After a
    gather of k neighbours per row the columns have two leading dimensions ``(n, k)``.

    Attributes:
        obs: ``(n, *obs_shape)``, or a dict of such for goal-conditioned environments.
        actions: ``(n, *action_shape)``.
        rewards: ``(n,)``.
        next_obs: like `obs`.
        terminated: ``(n,)`` bool, the episode ended in a state without a future.
        truncated: ``(n,)`` bool, the episode was cut, by a time limit for instance.
        episode: ``(n,)`` int64, or None. Rows of one episode arrive in order; several may interleave.
        discounts: ``(n,)``, factor on the value of `next_obs`: γ^m·(1 − terminated) after m steps. Set by
            the storage on the way out; ignored on the way in.
        extras: more columns of length n by name, stored and returned as they are.

    Raises:
        ValueError: When the columns differ in length or a per-row column is not of shape ``(n,)``.
    """

    obs: Any
    actions: Any
    rewards: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    episode: Any = None
    discounts: Any = None
    extras: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("obs", "next_obs"):
            value = getattr(self, name)
            put(self, name, {k: as_tensor(v) for k, v in value.items()} if isinstance(value, Mapping) else as_tensor(value))
        for name in ("actions", "rewards"):
            put(self, name, as_tensor(getattr(self, name)))
        for name in ("terminated", "truncated"):
            put(self, name, as_tensor(getattr(self, name)).to(torch.bool))
        if self.episode is not None:
            put(self, "episode", as_tensor(self.episode).to(torch.int64))
        if self.discounts is not None:
            put(self, "discounts", as_tensor(self.discounts))
        put(self, "extras", {k: as_tensor(v) for k, v in self.extras.items()})
        self._check()

    def _check(self) -> None:
        lead = self.rewards.shape
        for name, column in self.columns().items():
            if column.shape[: len(lead)] != lead:
                raise ValueError(f"{name} has shape {tuple(column.shape)}; expected {tuple(lead)} rows as in rewards")
        for name in ("terminated", "truncated", "episode", "discounts"):
            column = getattr(self, name)
            if column is not None and column.shape != lead:
                raise ValueError(f"{name} has shape {tuple(column.shape)}; expected {tuple(lead)}, as rewards")

    def __len__(self) -> int:
        return int(self.rewards.shape[0])

    def columns(self) -> dict[str, Tensor]:
        """Every column by name; parts of a Dict observation as ``obs.part``, extras as ``extras.name``."""
        found: dict[str, Tensor] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, dict):
                found.update({f"{f.name}.{k}": v for k, v in value.items()})
            elif value is not None:
                found[f.name] = value
        return found

    def map(self, fn: Callable[[Tensor], Tensor]) -> Transitions:
        """The same transitions with `fn` applied to every column."""
        changed: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, dict):
                changed[f.name] = {k: fn(v) for k, v in value.items()}
            elif value is not None:
                changed[f.name] = fn(value)
        return unchecked(**changed)

    def __getitem__(self, index: Any) -> Transitions:
        return self.map(lambda column: column[index])

    def replace(self, **columns: Any) -> Transitions:
        """The same transitions with some columns exchanged for ones of the same length."""
        return unchecked(**{f.name: getattr(self, f.name) for f in fields(self)} | columns)

    def blend(self, other: Transitions, mix: Tensor) -> Transitions:
        """λ·self + (1 − λ)·other over obs, actions, rewards and next_obs; the rest is self's.

        A row blended with itself comes back bit for bit.

        Args:
            other: Partners, the same shapes as self.
            mix: λ, shape ``(n,)``.
        """

        def lerp(mine: Tensor, theirs: Tensor) -> Tensor:
            weight = mix.to(mine.dtype).reshape(mix.shape + (1,) * (mine.dim() - mix.dim()))
            return torch.lerp(theirs, mine, weight)

        return self.replace(
            obs=map_observation(lerp, self.obs, other.obs),
            actions=lerp(self.actions, other.actions),
            rewards=lerp(self.rewards, other.rewards),
            next_obs=map_observation(lerp, self.next_obs, other.next_obs),
        )

    def where(self, keep: Tensor, other: Transitions) -> Transitions:
        """Rows of self where `keep` ``(n,)`` is true, of `other` elsewhere (columns that both have)."""

        def choose(mine: Tensor, theirs: Tensor) -> Tensor:
            return torch.where(keep.reshape(keep.shape + (1,) * (mine.dim() - keep.dim())), mine, theirs)

        changed: dict[str, Any] = {}
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            if isinstance(mine, dict):
                changed[f.name] = {k: choose(v, theirs[k]) for k, v in mine.items()}
            elif mine is not None and theirs is not None:
                changed[f.name] = choose(mine, theirs)
        return unchecked(**changed)


def unchecked(**columns: Any) -> Transitions:
    """Transitions from tensors that are already right; skips the checks of the public constructor."""
    made = object.__new__(Transitions)
    for f in fields(Transitions):
        default: Any = {} if f.name == "extras" else None
        object.__setattr__(made, f.name, columns.get(f.name, default))
    return made
