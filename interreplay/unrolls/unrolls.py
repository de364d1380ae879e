"""Unrolls: T steps of each of B environments, time first, the currency between actors, replay and updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from interreplay.transitions import as_tensor

ONE_MORE = frozenset({"obs"})
"""Columns with an entry for the state after the last step, too."""
PER_UNROLL = frozenset({"state", "version", "fresh", "slots", "origins", "writes", "weights"})
"""Columns with one entry per unroll, B first; all others have time first and B second."""
TAGS = ("slots", "origins", "writes", "weights")
"""Columns that say how an unroll was drawn: they are not stored with it."""


@dataclass(frozen=True, eq=False)
class Unrolls:
    """B sequences of T steps as columns, time first: what V-trace learns from (Espeholt et al. 2018, arXiv:1802.01561).

    Environments reset themselves on the step after an episode's end (gymnasium's ``NEXT_STEP``). That step is a row
    with ``live`` false: `obs` there is the final observation, the action did nothing, and obs[t + 1] is the first one
    of the next episode. So a truncated step t bootstraps from V(obs[t + 1]), which *is* the final observation, and a
    terminated one has discount 0; a recurrent network starts anew behind every row that is not live.

    Attributes:
        obs: ``(T + 1, B, *obs_shape)``, or a dict of such.
        actions: ``(T, B, *action_shape)``.
        rewards: ``(T, B)`` float32, as the learner is to see them.
        terminated: ``(T, B)`` bool, the step ended in a state without a future.
        live: ``(T, B)`` bool; false is no step: no loss, ρ = 0. All true by default.
        policy: ``(T, B, F)``, what the behavior policy gave when it acted: logits, or [mean; log std].
        values: ``(T, B)`` float32, the behavior network's values of obs[:-1].
        state: Recurrent state before obs[0] by name ``(B, ...)``, empty where there is none.
        version: ``(B,)`` int64, updates that the behavior weights had seen; a number stands for all.
        fresh: ``(B,)`` bool, never learned from; all true by default.
        slots: ``(B,)`` int64, where a replayed one lies in its store; −1 for fresh ones.
        origins: ``(B,)`` int64, number of the part of a mix that gave it; −1 where there was none.
        writes: ``(B,)`` int64, write number in its store, by which a store knows what it has replaced since; −1.
        weights: ``(B,)`` float32, importance weights of losses where replay is prioritized; 1.

    Raises:
        ValueError: When a column is of another length.
    """

    obs: Any
    actions: Any
    rewards: Any
    terminated: Any
    policy: Any
    values: Any
    live: Any = None
    state: Mapping[str, Any] = field(default_factory=dict)
    version: Any = 0
    fresh: Any = True
    slots: Any = -1
    origins: Any = -1
    writes: Any = -1
    weights: Any = 1.0

    def __post_init__(self) -> None:
        given = {name: dict(value) if isinstance(value, Mapping) else value for name, value in self.__dict__.items()}
        rewards = as_tensor(self.rewards).float()
        if rewards.dim() != 2:
            raise ValueError(f"rewards has shape {tuple(rewards.shape)}; expected (T, B)")
        if given["live"] is None:
            given["live"] = torch.ones_like(rewards, dtype=torch.bool)
        made = {name: _mapped(as_tensor, value) for name, value in given.items()} | {"rewards": rewards}
        for name, dtype in DTYPES.items():
            made[name] = made[name].to(dtype)
            if name in PER_UNROLL and not made[name].dim():
                made[name] = made[name].expand(rewards.shape[1]).to(rewards.device).clone()
        self.__dict__.update(made)
        self._check()

    def _check(self) -> None:
        steps, size = self.rewards.shape
        for name, column in self.columns().items():
            whole = root(name)
            lead = (size,) if whole in PER_UNROLL else (steps + (whole in ONE_MORE), size)
            if tuple(column.shape[: len(lead)]) != lead or (whole in EXACT and column.dim() != len(lead)):
                more = "" if whole in EXACT else " and more"
                raise ValueError(f"{name} has shape {tuple(column.shape)}; expected {lead}{more}")

    @property
    def steps(self) -> int:
        """T."""
        return int(self.rewards.shape[0])

    @property
    def size(self) -> int:
        """B."""
        return int(self.rewards.shape[1])

    @property
    def device(self) -> torch.device:
        """Where the columns lie."""
        return self.rewards.device

    def __len__(self) -> int:
        return self.size

    @property
    def env_steps(self) -> int:
        """Steps that environments made: live rows."""
        return int(self.live.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(column.nbytes for column in self.columns().values())

    def columns(self) -> dict[str, Tensor]:
        """Return every column by name; parts of a Dict observation as ``obs.part``, of a state as ``state.part``."""
        found: dict[str, Tensor] = {}
        for name in NAMES:
            value = getattr(self, name)
            found |= {f"{name}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
        return found

    def map(self, fn: Callable[[Tensor], Tensor]) -> Unrolls:
        """Return the same unrolls with `fn` applied to every column."""
        return unchecked(**{name: _mapped(fn, getattr(self, name)) for name in NAMES})

    def __getitem__(self, index: Any) -> Unrolls:
        """Return those of the unrolls that `index` names: a slice, numbers, or a mask ``(B,)``."""
        if isinstance(index, int):
            index = slice(index, index + 1 or None)
        picks = {True: lambda column: column[index], False: lambda column: column[:, index]}
        return unchecked(**{name: _mapped(picks[name in PER_UNROLL], getattr(self, name)) for name in NAMES})

    def to(self, device: torch.device | str) -> Unrolls:
        """Return the same unrolls on a device, without a copy of what lies there already."""
        return self.map(lambda column: column.to(device))

    def replace(self, **columns: Any) -> Unrolls:
        """Return the same unrolls with some columns exchanged for ones of the same length, tensors or dicts of such."""
        unknown = set(columns) - set(NAMES)
        if unknown:
            raise ValueError(f"there is no column {sorted(unknown)[0]!r}; expected one of {', '.join(NAMES)}")
        return unchecked(**(self.__dict__ | columns))


def cat(parts: Sequence[Unrolls]) -> Unrolls:
    """Return unrolls of one length T side by side, each column contiguous in memory, time first.

    Raises:
        ValueError: When they differ in length or in what their columns are called, or there are none.
    """
    if not parts:
        raise ValueError("no unrolls to put together; expected at least one")
    first = parts[0]
    for other in parts[1:]:
        if other.steps != first.steps:
            raise ValueError(f"unrolls of {first.steps} and of {other.steps} steps; expected one length")
        if other.columns().keys() != first.columns().keys():
            raise ValueError(f"unrolls with columns {sorted(other.columns())}; expected {sorted(first.columns())}")
    if len(parts) == 1:
        return first.map(Tensor.contiguous)
    joined: dict[str, Any] = {}
    for name in NAMES:
        dim, values = int(name not in PER_UNROLL), [getattr(part, name) for part in parts]
        if isinstance(values[0], dict):
            joined[name] = {key: torch.cat([value[key] for value in values], dim) for key in values[0]}
        else:
            joined[name] = torch.cat(values, dim)
    return unchecked(**joined)


def root(column: str) -> str:
    """Return which attribute a column is, or is a part of."""
    return column.partition(".")[0]


def of_columns(columns: Mapping[str, Tensor]) -> Unrolls:
    """Return unrolls from all columns by name, the inverse of `Unrolls.columns`; skips the checks."""
    made: dict[str, Any] = {"state": {}}
    for name, column in columns.items():
        whole, _, part = name.partition(".")
        if part:
            made.setdefault(whole, {})[part] = column
        else:
            made[whole] = column
    return unchecked(**made)


def unchecked(**columns: Any) -> Unrolls:
    """Return unrolls from tensors that are already right; skips the checks of the public constructor."""
    made = object.__new__(Unrolls)
    made.__dict__.update(columns)
    return made


def _mapped(fn: Callable[[Any], Tensor], value: Any) -> Any:
    return {key: fn(part) for key, part in value.items()} if isinstance(value, dict) else fn(value)


NAMES = tuple(f.name for f in fields(Unrolls))
DTYPES = {
    "rewards": torch.float32,
    "terminated": torch.bool,
    "live": torch.bool,
    "values": torch.float32,
    "version": torch.int64,
    "fresh": torch.bool,
    "slots": torch.int64,
    "origins": torch.int64,
    "writes": torch.int64,
    "weights": torch.float32,
}
EXACT = frozenset(DTYPES)
"""Columns that hold one number per step, or per unroll."""
