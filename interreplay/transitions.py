"""Transitions: columns of one length, the currency between all parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

Observation = Tensor | dict[str, Tensor]
ArrayLike = Any
"""A numpy array, a torch tensor, or anything that numpy turns into one."""


def as_tensor(values: ArrayLike) -> Tensor:
    """Return a tensor over `values`, sharing memory with numpy arrays and tensors where it can."""
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def map_observation(fn: Callable[..., Tensor], *observations: Observation) -> Observation:
    """Apply `fn` to an observation, or to each named part of a Dict observation."""
    first = observations[0]
    if isinstance(first, dict):
        return {name: fn(*(o[name] for o in observations)) for name in first}  # type: ignore[index]
    return fn(*observations)


def observation_parts(obs: Observation) -> dict[str, Tensor]:
    """Return the named tensors of an observation; a plain one is the single part ``""``."""
    return dict(obs) if isinstance(obs, dict) else {"": obs}


def join_parts(parts: dict[str, Tensor]) -> Observation:
    """Return the inverse of `observation_parts`."""
    return parts[""] if len(parts) == 1 and "" in parts else parts


@dataclass(frozen=True, eq=False, repr=False)
class Transitions:
    """n transitions as columns, each a tensor whose first dimension is n.

    Numpy arrays are taken as they are, without a copy where numpy and torch can share memory. After a
    gather of k neighbors per row the columns have two leading dimensions ``(n, k)``.

    Attributes:
        obs: ``(n, *obs_shape)``, or a dict of such for goal-conditioned environments.
        actions: ``(n, *action_shape)``.
        rewards: ``(n,)``; integers become float32.
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
            put(
                self,
                name,
                {k: as_tensor(v) for k, v in value.items()} if isinstance(value, Mapping) else as_tensor(value),
            )
        rewards = as_tensor(self.rewards)
        put(self, "rewards", rewards if rewards.is_floating_point() else rewards.float())
        put(self, "actions", as_tensor(self.actions))
        for name in ("terminated", "truncated"):
            put(self, name, as_tensor(getattr(self, name)).to(torch.bool))
        if self.episode is not None:
            put(self, "episode", as_tensor(self.episode).to(torch.int64))
        if self.discounts is not None:
            put(self, "discounts", as_tensor(self.discounts))
        put(self, "extras", {k: as_tensor(v) for k, v in self.extras.items()})
        self._check()

    def _check(self) -> None:
        lead = min((self.rewards, self.terminated, self.truncated), key=Tensor.dim).shape
        if not lead:
            raise ValueError(f"rewards has shape {tuple(self.rewards.shape)}; expected (n,), also for a single row")
        for name, column in self.columns().items():
            if column.shape[: len(lead)] != lead or (name in PER_ROW and column.dim() != len(lead)):
                expected = str(tuple(lead)) + ("" if name in PER_ROW else " rows")
                raise ValueError(f"{name} has shape {tuple(column.shape)}; expected {expected}")

    def __len__(self) -> int:
        return int(self.rewards.shape[0])

    def __repr__(self) -> str:
        """Return the number of rows, and the columns with their shapes and dtypes."""
        shapes = ", ".join(f"{name} {described(column)}" for name, column in self.columns().items())
        return f"Transitions({len(self)} rows: {shapes})"

    def columns(self) -> dict[str, Tensor]:
        """Return every column by name; parts of a Dict observation as ``obs.part``, extras as ``extras.name``."""
        found: dict[str, Tensor] = {}
        for name in NAMES:
            value = getattr(self, name)
            if isinstance(value, dict):
                found.update({f"{name}.{k}": v for k, v in value.items()})
            elif value is not None:
                found[name] = value
        return found

    def map(self, fn: Callable[[Tensor], Tensor]) -> Transitions:
        """Return the same transitions with `fn` applied to every column."""
        changed: dict[str, Any] = {}
        for name in NAMES:
            value = getattr(self, name)
            if isinstance(value, dict):
                changed[name] = {k: fn(v) for k, v in value.items()}
            elif value is not None:
                changed[name] = fn(value)
        return unchecked(**changed)

    def __getitem__(self, index: Any) -> Transitions:
        return self.map(lambda column: column[index])

    def replace(self, **columns: Any) -> Transitions:
        """Return the same transitions with some columns exchanged for ones of the same length."""
        return unchecked(**(self.__dict__ | columns))

    def blend(self, other: Transitions, mix: Tensor) -> Transitions:
        """Return λ·self + (1 − λ)·other over obs, actions, rewards and next_obs; the rest is self's.

        A row blended with itself comes back bit for bit. Whole numbers are self's.

        Args:
            other: Partners, the same shapes as self.
            mix: λ, shape ``(n,)``.
        """
        shares: dict[tuple[torch.dtype, int], Tensor] = {}

        def lerp(mine: Tensor, theirs: Tensor) -> Tensor:
            if not mine.is_floating_point():
                return mine
            kind = mine.dtype, mine.dim()
            if kind not in shares:
                shares[kind] = mix.to(mine.dtype).view(mix.shape + (1,) * (mine.dim() - mix.dim()))
            return torch.lerp(theirs, mine, shares[kind])

        return self.replace(
            obs=map_observation(lerp, self.obs, other.obs),
            actions=lerp(self.actions, other.actions),
            rewards=lerp(self.rewards, other.rewards),
            next_obs=map_observation(lerp, self.next_obs, other.next_obs),
        )

    def where(self, keep: Tensor, other: Transitions) -> Transitions:
        """Return rows of self where `keep` ``(n,)`` is true, of `other` elsewhere (columns that both have)."""

        def choose(mine: Tensor, theirs: Tensor) -> Tensor:
            return torch.where(keep.reshape(keep.shape + (1,) * (mine.dim() - keep.dim())), mine, theirs)

        changed: dict[str, Any] = {}
        for name in NAMES:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, dict):
                changed[name] = {k: choose(v, theirs[k]) for k, v in mine.items()}
            elif mine is not None and theirs is not None:
                changed[name] = choose(mine, theirs)
        return unchecked(**changed)


def described(column: Tensor) -> str:
    """Return a column's shape and dtype, such as ``(256, 17) float32``."""
    return f"{tuple(column.shape)} {str(column.dtype).removeprefix('torch.')}"


def cat(rows: Sequence[Transitions]) -> Transitions:
    """Return batches one after the other.

    Columns that one of them lacks are left out, but for views of observations, which change what is learned.

    Raises:
        ValueError: When only some have views.
    """
    parts = [batch.__dict__ for batch in rows]
    if len({"views_obs" in part["extras"] for part in parts}) > 1:
        raise ValueError("only some of these batches have several views of a row (S4RL); expected all or none")
    joined: dict[str, Any] = {}
    for name, first in parts[0].items():
        columns: list[Any] = [part.get(name) for part in parts]
        if isinstance(first, dict):
            shared = [key for key in first if all(key in column for column in columns)]
            joined[name] = {key: torch.cat([column[key] for column in columns]) for key in shared}
        elif all(column is not None for column in columns):
            joined[name] = torch.cat(columns)
    return unchecked(**joined)


def flat_parts(observation: Observation, lead: int) -> list[Tensor]:
    """Return the parts of an observation, all dimensions behind the first `lead` as one."""
    parts = observation_parts(observation).values()
    return [part.flatten(lead) if part.dim() > lead else part.unsqueeze(-1) for part in parts]


def features(rows: Transitions) -> Tensor:
    """Return z = [s; a] of rows ``(n, ...)`` or ``(n, k, ...)``: ``(n, d)`` or ``(n, k, d)``.

    All parts of s, in the order of the observation. Of stored rows, `Storage.features` gives z.
    """
    lead = rows.rewards.dim()
    return torch.cat([*flat_parts(rows.obs, lead), *flat_parts(rows.actions, lead)], dim=-1)


def unchecked(**columns: Any) -> Transitions:
    """Return transitions from tensors that are already right; skips the checks of the public constructor."""
    made = object.__new__(Transitions)
    made.__dict__.update({"extras": {}} | columns)
    return made


NAMES = tuple(f.name for f in fields(Transitions))
PER_ROW = frozenset({"rewards", "terminated", "truncated", "episode", "discounts"})
