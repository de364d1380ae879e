"""Transitions: columns of equal length, which all parts of a replay buffer exchange."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from interreplay.errors import PartError

Observation = Tensor | dict[str, Tensor]
ArrayLike = Any
"""A numpy array, a torch tensor, or anything that numpy converts to an array."""


def as_tensor(values: ArrayLike) -> Tensor:
    """Convert values to a tensor, sharing memory with numpy arrays and tensors where possible."""
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.writeable or min(array.strides, default=0) < 0:
        array = array.copy()
    return torch.from_numpy(array)


def _as_whole(name: str, values: ArrayLike, dtype: torch.dtype) -> Tensor:
    """Return a column as bools or integers.

    Raises:
        ValueError: A float differs from its bool or integer, such as 0.5 or NaN.
    """
    column = as_tensor(values)
    converted = column.to(dtype)
    if column.is_floating_point() and not torch.equal(converted.to(column.dtype), column):
        wrong = column[converted.to(column.dtype) != column][0].item()
        expected = "0 or 1" if dtype == torch.bool else "integers"
        raise ValueError(f"{name} holds {wrong}; expected {expected}")
    return converted


def as_bools(function: str, returned: Any, rows: Tensor) -> Tensor:
    """Return what a user's function returned for n rows as bool ``(n,)``.

    Args:
        function: Description of the function in errors.
        returned: Result of the function.
        rows: A column ``(n, ...)`` of the rows, on the device of the result.

    Raises:
        PartError: The result is anything other than one bool, 0 or 1 per row.
    """
    expected = f"expected bool of shape {(len(rows),)}, one per row"
    try:
        found = torch.as_tensor(returned, device=rows.device)
    except (TypeError, ValueError, RuntimeError):
        raise PartError(f"{function} returned a {type(returned).__name__}; {expected}") from None
    if found.shape != rows.shape[:1]:
        raise PartError(f"{function} returned shape {tuple(found.shape)}; {expected}")
    bools = found.bool()
    if found.dtype != torch.bool and not torch.equal(bools.to(found.dtype), found):
        wrong = found[bools.to(found.dtype) != found][0].item()
        raise PartError(f"{function} returned {wrong} for a row; {expected}")
    return bools


def map_observation(fn: Callable[..., Tensor], *observations: Observation) -> Observation:
    """Apply a function to an observation, or to each named part of a Dict observation."""
    first = observations[0]
    if isinstance(first, dict):
        dicts: Sequence[Any] = observations
        parts = {}
        for name in first:
            parts[name] = fn(*[each[name] for each in dicts])
        return parts
    return fn(*observations)


def pick(observation: Any, rows: Any) -> Any:
    """Return some rows of a batch of observations, arrays or tensors."""
    return map_observation(itemgetter(rows), observation)


def as_tensors(observation: Any, device: torch.device | str = "cpu") -> Observation:
    """Return a batch of observations as tensors on a device."""
    return map_observation(lambda part: as_tensor(part).to(device), observation)


def to_arrays(columns: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Return named tensors as arrays; those on the CPU share memory."""
    return {name: column.numpy(force=True) for name, column in columns.items()}


def to_tensors(columns: Mapping[str, ArrayLike]) -> dict[str, Tensor]:
    """Return named arrays as tensors, sharing memory as in `as_tensor`."""
    return {name: as_tensor(column) for name, column in columns.items()}


def observation_parts(obs: Observation) -> dict[str, Tensor]:
    """Return the named tensors of an observation. A plain observation is one part named ``""``."""
    return dict(obs) if isinstance(obs, dict) else {"": obs}


def join_parts(parts: dict[str, Tensor]) -> Observation:
    """Return the inverse of `observation_parts`."""
    return parts[""] if len(parts) == 1 and "" in parts else parts


def group_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inverse of `Transitions.columns`: columns ``obs.part`` as a dict ``obs`` of parts."""
    found: dict[str, Any] = {}
    for name, column in columns.items():
        attribute, dot, part = name.partition(".")
        if dot:
            found.setdefault(attribute, {})[part] = column
        else:
            found[attribute] = column
    return found


class ColumnGroup:
    """Base of dataclasses of columns: tensors, or dicts of tensors by the names of their parts."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @classmethod
    def unchecked(cls, columns: Mapping[str, Any]) -> Self:
        """Create an object from valid tensors without the checks of the public constructor."""
        made = object.__new__(cls)
        made.__dict__.update(columns)
        return made

    def columns(self) -> dict[str, Tensor]:
        """Return all columns by name; parts of an observation are ``obs.part``, and of others accordingly."""
        found: dict[str, Tensor] = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, dict):
                found.update({f"{name}.{part}": column for part, column in value.items()})
            elif value is not None:
                found[name] = value
        return found

    def map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """Return an object with `fn` applied to every column."""
        changed: dict[str, Any] = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is not None:
                changed[name] = map_observation(fn, value)
        return self.unchecked(changed)

    def to(self, device: torch.device | str) -> Self:
        """Return the columns on a device, without copying those that are already there."""
        return self.map(lambda column: column.to(device))

    def replace(self, **columns: Any) -> Self:
        """Return an object with some columns replaced by columns of the same length."""
        return self.unchecked(self.__dict__ | columns)


@dataclass(frozen=True, eq=False, repr=False)
class Transitions(ColumnGroup):
    """n transitions as columns: tensors with first dimension n.

    NumPy arrays are not copied if NumPy and PyTorch can share their memory. The k neighbors of n rows have two leading
    dimensions ``(n, k)``.

    Attributes:
        obs: Observations ``(n, *obs_shape)``, or a dict of arrays for goal-conditioned environments.
        actions: ``(n, *action_shape)``.
        rewards: ``(n,)``. Integers are converted to float32.
        next_obs: Same shapes as `obs`.
        terminated: ``(n,)`` bool: the episode ended in a terminal state.
        truncated: ``(n,)`` bool: the episode was cut off, for example by a time limit.
        episode: Episode ids ``(n,)`` int64, or None. Rows of an episode are in order; episodes may interleave.
        discounts: Factor ``(n,)`` of the value of `next_obs`: γ^m·(1 − terminated) after m steps. The storage sets it
            when rows are read and ignores it when rows are added.
        extras: Additional columns of length n by name, stored and returned unchanged.

    Raises:
        ValueError: If columns differ in length, a per-row column does not have shape ``(n,)``, or floats in
            `terminated`, `truncated` or `episode` are not whole.
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
        converted: dict[str, Any] = {}
        for name in ("obs", "next_obs"):
            value = getattr(self, name)
            if isinstance(value, Mapping):
                converted[name] = map_observation(as_tensor, dict(value))
            else:
                converted[name] = as_tensor(value)
        rewards = as_tensor(self.rewards)
        converted["rewards"] = rewards if rewards.is_floating_point() else rewards.float()
        converted["actions"] = as_tensor(self.actions)
        converted["terminated"] = _as_whole("terminated", self.terminated, torch.bool)
        converted["truncated"] = _as_whole("truncated", self.truncated, torch.bool)
        if self.episode is not None:
            converted["episode"] = _as_whole("episode", self.episode, torch.int64)
        if self.discounts is not None:
            converted["discounts"] = as_tensor(self.discounts)
        converted["extras"] = to_tensors(self.extras)
        self.__dict__.update(converted)
        self._check()

    def _check(self) -> None:
        lead = min((self.rewards, self.terminated, self.truncated), key=Tensor.dim).shape
        if not lead:
            raise ValueError(f"rewards has shape {tuple(self.rewards.shape)}; expected (n,), also for a single row")
        for name, column in self.columns().items():
            if column.shape[: len(lead)] != lead or (name in PER_ROW and column.dim() != len(lead)):
                expected = f"{tuple(lead)}" if name in PER_ROW else f"{tuple(lead)} rows"
                raise ValueError(f"{name} has shape {tuple(column.shape)}; expected {expected}")

    def __len__(self) -> int:
        return int(self.rewards.shape[0])

    def __repr__(self) -> str:
        """Return the number of rows and the columns with their shapes and dtypes."""
        shapes = ", ".join(f"{name} {describe_column(column)}" for name, column in self.columns().items())
        return f"Transitions({len(self)} rows: {shapes})"

    def __getitem__(self, index: Any) -> Transitions:
        return self.map(lambda column: column[index])

    def blend(self, other: Transitions, mix: Tensor) -> Transitions:
        """Return λ·self + (1 − λ)·other for obs, actions, rewards, next_obs and, if both have them, discounts.

        Other columns and integer columns are taken from self. A row blended with itself is unchanged, bit for bit.

        Args:
            other: Partners with the same shapes as self.
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

        discounts = self.discounts
        if discounts is not None and other.discounts is not None:
            discounts = lerp(discounts, other.discounts)  # differ for returns of n steps that an episode's end has cut
        return self.replace(
            obs=map_observation(lerp, self.obs, other.obs),
            actions=lerp(self.actions, other.actions),
            rewards=lerp(self.rewards, other.rewards),
            next_obs=map_observation(lerp, self.next_obs, other.next_obs),
            discounts=discounts,
        )

    def where(self, keep: Tensor, other: Transitions) -> Transitions:
        """Return rows of self where `keep` ``(n,)`` is true and rows of `other` elsewhere (columns that both have)."""

        def choose(mine: Tensor, theirs: Tensor) -> Tensor:
            return torch.where(keep.reshape(keep.shape + (1,) * (mine.dim() - keep.dim())), mine, theirs)

        changed: dict[str, Any] = {}
        for name in NAMES:
            mine = getattr(self, name)
            theirs = getattr(other, name)
            if mine is not None and theirs is not None:
                changed[name] = map_observation(choose, mine, theirs)
        return unchecked(**changed)


def describe_column(column: Tensor) -> str:
    """Return a column's shape and dtype, such as ``(256, 17) float32``."""
    return f"{tuple(column.shape)} {str(column.dtype).removeprefix('torch.')}"


def with_extras(rows: Transitions, names: Collection[str]) -> Transitions:
    """Return rows with exactly the extra columns `names`.

    Raises:
        ValueError: If the rows lack one of these columns.
    """
    if lacking := sorted(set(names) - rows.extras.keys()):
        raise ValueError(f"the rows lack the column {lacking[0]}, which the replay method requires")
    return rows.replace(extras={name: rows.extras[name] for name in rows.extras if name in names})


def cat(rows: Sequence[Transitions]) -> Transitions:
    """Concatenate batches; columns that are missing in one of them are omitted.

    Raises:
        ValueError: If only some batches have augmented views (S4RL), which change the loss.
    """
    parts = [batch.__dict__ for batch in rows]
    if len({"views_obs" in part["extras"] for part in parts}) > 1:
        raise ValueError("only some of these batches have several views of each row (S4RL); expected all or none")
    return unchecked(**cat_columns(parts))


def cat_columns(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Concatenate columns by name, Dict observations by part; columns that a batch lacks are omitted."""
    joined: dict[str, Any] = {}
    for name, first in parts[0].items():
        columns: list[Any] = [part.get(name) for part in parts]
        if isinstance(first, dict):
            joined[name] = cat_columns(columns)
        elif all(column is not None for column in columns):
            joined[name] = torch.cat(columns)
    return joined


def flat_parts(observation: Observation, lead: int) -> list[Tensor]:
    """Return the parts of an observation, with all dimensions after the first `lead` flattened."""
    parts = observation_parts(observation).values()
    return [part.flatten(lead) if part.dim() > lead else part.unsqueeze(-1) for part in parts]


def features(rows: Transitions) -> Tensor:
    """Return z = [s; a] of rows ``(n, ...)`` or ``(n, k, ...)``: ``(n, d)`` or ``(n, k, d)``.

    s contains all parts of the observation in order. For stored rows, use `Storage.features`.
    """
    lead = rows.rewards.dim()
    return torch.cat([*flat_parts(rows.obs, lead), *flat_parts(rows.actions, lead)], dim=-1)


def unchecked(**columns: Any) -> Transitions:
    """Create transitions from valid tensors without the checks of the public constructor."""
    return Transitions.unchecked({"extras": {}} | columns)


NAMES = tuple(f.name for f in fields(Transitions))
PER_ROW = frozenset({"rewards", "terminated", "truncated", "episode", "discounts"})
