"""Unrolls: T steps of B environments, time first, which actors, replay and updates exchange."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from interreplay.errors import NonFiniteError
from interreplay.storage.columns import all_finite
from interreplay.transitions import ColumnGroup, as_tensor, group_columns, map_observation

ONE_MORE = frozenset({"obs"})
"""Columns with an additional entry for the state after the last step."""
PER_UNROLL = frozenset({"state", "version", "fresh", "slots", "origins", "writes", "weights"})
"""Columns with one entry per unroll and B as first dimension; all others have time first and B second."""
TAGS = ("slots", "origins", "writes", "weights")
"""Columns that describe how an unroll was drawn; they are not stored."""


@dataclass(frozen=True, eq=False)
class Unrolls(ColumnGroup):
    """B sequences of T steps as columns, time first: the input of V-trace (Espeholt et al. 2018, arXiv:1802.01561).

    Environments reset on the step after the end of an episode (gymnasium's ``NEXT_STEP``). The row of that step has
    ``live`` false: `obs` is the final observation, the action has no effect, and obs[t + 1] is the first observation of
    the next episode. A truncated step t therefore bootstraps from V(obs[t + 1]), which is the value of the final
    observation. A terminated step has discount 0. Recurrent networks are reset after each row that is not live.

    Attributes:
        obs: ``(T + 1, B, *obs_shape)``, or a dict of them.
        actions: ``(T, B, *action_shape)``.
        rewards: ``(T, B)`` float32, as passed to the learner.
        terminated: ``(T, B)`` bool, the step ended in a terminal state.
        live: ``(T, B)`` bool. False marks rows that are not steps: no loss, ρ = 0. All true by default.
        policy: Outputs ``(T, B, F)`` of the behavior policy: logits, or [mean; log std].
        values: ``(T, B)`` float32, the behavior network's values of obs[:-1].
        state: Recurrent state before obs[0] by name ``(B, ...)``; empty for feedforward networks.
        version: ``(B,)`` int64, number of updates of the behavior weights; a single number is repeated.
        fresh: ``(B,)`` bool, never learned from; all true by default.
        slots: ``(B,)`` int64, slot of a replayed unroll in its store; −1 for fresh ones.
        origins: ``(B,)`` int64, index of the source in a mix; −1 for none.
        writes: ``(B,)`` int64, write number in its store, which identifies replaced unrolls; −1 for none.
        weights: ``(B,)`` float32, importance weights of losses; 1 by default.

    Raises:
        ValueError: If a column has another length.
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
        rewards = as_tensor(self.rewards).float()
        if rewards.dim() != 2:
            raise ValueError(f"rewards has shape {tuple(rewards.shape)}; expected (T, B)")
        steps, size = rewards.shape
        given = self.__dict__ | {"rewards": rewards}
        if self.live is None:
            given["live"] = torch.ones_like(rewards, dtype=torch.bool)
        for name, value in given.items():
            if isinstance(value, Mapping):
                value = dict(value)
            converted: Any = map_observation(as_tensor, value)
            if name in DTYPES:
                converted = converted.to(DTYPES[name])
                if name in PER_UNROLL and not converted.dim():
                    converted = converted.expand(size).to(rewards.device).clone()
            self.__dict__[name] = converted
        for name, column in self.columns().items():
            attribute = get_attribute_name(name)
            lead: tuple[int, ...] = (size,)
            if attribute not in PER_UNROLL:
                lead = (steps + (attribute in ONE_MORE), size)
            found = tuple(column.shape)
            if attribute in DTYPES and found != lead:
                raise ValueError(f"{name} has shape {found}; expected {lead}")
            if found[: len(lead)] != lead:
                raise ValueError(f"{name} has shape {found}; expected {lead} and more")

    @property
    def steps(self) -> int:
        """Number of env steps T of each unroll."""
        return int(self.rewards.shape[0])

    @property
    def size(self) -> int:
        """Number of unrolls B."""
        return int(self.rewards.shape[1])

    @property
    def device(self) -> torch.device:
        """Device of the columns."""
        return self.rewards.device

    def __len__(self) -> int:
        return self.size

    @property
    def env_steps(self) -> int:
        """Number of environment steps: live rows."""
        return int(self.live.sum())

    @property
    def nbytes(self) -> int:
        """Memory of all columns in bytes."""
        return sum(column.nbytes for column in self.columns().values())

    def __getitem__(self, index: Any) -> Unrolls:
        """Return some of the unrolls: an index, a slice, indices, or a mask ``(B,)``."""
        if isinstance(index, int):
            index = slice(index, index + 1 or None)
        per_unroll = operator.itemgetter(index)
        per_step = operator.itemgetter((slice(None), index))
        chosen = {}
        for name in NAMES:
            take = per_unroll if name in PER_UNROLL else per_step
            chosen[name] = map_observation(take, getattr(self, name))
        return self.unchecked(chosen)

    def check_finite(self) -> None:
        """Raise NonFiniteError for the first NaN or infinity in a column."""
        for name, column in self.columns().items():
            if column.is_floating_point() and not all_finite(column):
                place = tuple((~torch.isfinite(column)).nonzero()[0].tolist())
                raise NonFiniteError(name, place[0], float(column[place]), f"entry {place} of the added unrolls")


def cat(parts: Sequence[Unrolls]) -> Unrolls:
    """Concatenate unrolls of the same length T; each column is contiguous in memory, time first."""
    if len(parts) == 1:
        return parts[0].map(Tensor.contiguous)

    def per_unroll(*columns: Tensor) -> Tensor:
        return torch.cat(columns)

    def per_step(*columns: Tensor) -> Tensor:
        return torch.cat(columns, dim=1)

    joined: dict[str, Any] = {}
    for name in NAMES:
        join = per_unroll if name in PER_UNROLL else per_step
        joined[name] = map_observation(join, *[getattr(part, name) for part in parts])
    return Unrolls.unchecked(joined)


def get_attribute_name(column: str) -> str:
    """Return the attribute to which a column belongs, such as ``"obs"`` for ``"obs.camera"``."""
    return column.partition(".")[0]


def from_columns(columns: Mapping[str, Tensor]) -> Unrolls:
    """Create unrolls from all columns by name, the inverse of `Unrolls.columns`, without checks."""
    return Unrolls.unchecked({"state": {}} | group_columns(columns))


def restore(columns: Mapping[str, Any]) -> Unrolls:
    """Create unrolls from copies of the columns in a state."""
    return from_columns({name: as_tensor(column).clone() for name, column in columns.items()})


NAMES = tuple(field.name for field in fields(Unrolls))
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
"""Dtypes of the columns with one number per step or per unroll."""
