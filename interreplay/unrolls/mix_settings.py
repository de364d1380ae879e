"""Settings of a mix of unrolls, one mapping per source, and the mix that they make.

```yaml
- {type: queue, capacity: 1, share: 0.5}
- {type: elite, capacity: 10000, share: 0.5, insertion: reservoir, strategy: 3, distance: kl}
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any

from interreplay.errors import UsageError, accepted_names
from interreplay.learning.setting_fields import Accepts, Number, OneOf, Whole, accepted_by, setting
from interreplay.selection import Attentive, Elite, Prioritized, Selector, Uniform
from interreplay.unrolls.distances import KINDS, ToNewest, UnrollDistance, as_stored
from interreplay.unrolls.mixture import UnrollMix
from interreplay.unrolls.queue import FreshQueue
from interreplay.unrolls.replay import UnrollReplay
from interreplay.unrolls.source import UnrollSource
from interreplay.unrolls.storage import insertion
from interreplay.unrolls.storage.store import UnrollStore

Entry = Mapping[str, Any]
"""``{"type": …, "share": …}`` and settings of the type."""

INSERTIONS: dict[str, Callable[[SourceSettings], insertion.Insertion]] = {
    "fifo": lambda given: insertion.Fifo(),
    "reservoir": lambda given: insertion.Reservoir(),
    "elite": lambda given: insertion.Elite(given.candidates),
}


class ShareOf(Accepts):
    """A share of each batch, or two: at the start and at the end of the run."""

    described, metavar = "a number of at least 0, at most 1, or two such as [0.5, 1]", "SHARE"

    def admits(self, value: Any) -> bool:
        ends = value if isinstance(value, list | tuple) else [value, value]
        return len(ends) == 2 and all(map(Number(0, 1).admits, ends))

    def parse(self, text: str) -> Any:
        ends = [float(word) for word in text.strip("[]()").split(",")]
        return ends[0] if len(ends) == 1 else ends


class Strategy(Whole):
    """One of the strategies of `Elite`."""

    def __init__(self) -> None:
        super().__init__(1, 4)
        self.described = "1, 2, 3 or 4"


@dataclass(frozen=True)
class SourceSettings:
    """Settings of sources, whatever their type; each type takes some, `TYPES`."""

    share: Any = setting(MISSING, ShareOf(), "of each batch, or [at the start, at the end] of the run")
    capacity: int = setting(1_000, Whole(1), "unrolls")
    insertion: str = setting("fifo", OneOf(*INSERTIONS), "which unroll makes room for a new one")
    fill_in: float = setting(0.0, Number(0, 1), "share of the capacity that is stored before anything is drawn")
    candidates: int = setting(20, Whole(1), "unrolls of which elite insertion replaces the furthest")
    distance: str = setting("kl", OneOf(*KINDS), "between what the policy gave and what it gives")
    norm: float = setting(2.0, Number(0, open_low=True), "p of the distance ln")
    refresh: int = setting(4, Whole(0), "unrolls per batch whose distance is measured again")
    multiplier: float = setting(6.0, Number(1), "candidates per unroll drawn, at the start of the run")
    alpha: float = setting(2.0, Number(0, open_low=True), "exponent of the fall of the multiplier to 1; of priorities")
    strategy: int = setting(3, Strategy(), "which candidates are kept")
    beta: float = setting(0.4, Number(0, 1), "exponent of importance weights at the start of the run")


MEASURED = ("distance", "norm", "refresh")
STORE = ("share", "capacity", "insertion", "fill_in")
TYPES: dict[str, tuple[str, ...]] = {
    "queue": ("share", "capacity"),
    "uniform": STORE,
    "prioritized": (*STORE, "alpha", "beta"),
    "elite": (*STORE, *MEASURED, "multiplier", "alpha", "strategy"),
    "attentive": (*STORE, "distance", "norm", "multiplier", "alpha"),
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "queue": {"capacity": 1},
    "prioritized": {"alpha": 0.6},
    "attentive": {"multiplier": 3.0, "alpha": 1.0},
}
"""Where a type differs from `SourceSettings`."""
FIELDS: dict[str, Field[Any]] = {found.name: found for found in fields(SourceSettings)}
STANDARD: tuple[Entry, ...] = (
    {"type": "queue", "capacity": 1, "share": 0.5},
    {"type": "uniform", "capacity": 1_000, "share": 0.5},
)
"""Half of each batch fresh, half replayed."""


def make_mix(entries: Sequence[Entry], gaussian: bool = False) -> UnrollMix:
    """Return the mix of these settings.

    Args:
        entries: One mapping per source.
        gaussian: Whether policies give [mean; log std] rather than logits.

    Raises:
        UsageError: When a setting is unknown or out of range, shares do not add up to 1, or none is fresh.
    """
    if isinstance(entries, str | Mapping) or not isinstance(entries, Sequence):
        raise UsageError(f"a mix of unrolls is {entries!r}; expected a list of sources such as {list(STANDARD)}")
    made = [_source(entry, number, gaussian) for number, entry in enumerate(entries, 1)]
    return UnrollMix(made)


def checked(entry: Entry, number: int) -> tuple[str, SourceSettings]:
    """Return the type of one source, and its settings with defaults.

    Args:
        entry: As it was given.
        number: Of the source, for messages.

    Raises:
        UsageError: When there is no such type or setting, or a value is not accepted.
    """
    where = f"source {number} of the mix"
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is {entry!r}; expected a mapping such as {dict(STANDARD[0])}")
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        raise UsageError(f"{where} has the type {kind!r}; {accepted_names(str(kind), TYPES)}")
    names = TYPES[kind] + (("candidates", *MEASURED) if entry.get("insertion") == "elite" else ())
    given = {name: value for name, value in entry.items() if name != "type"}
    for name, value in given.items():
        if name not in names:
            raise UsageError(f"{where}, {kind}, has no setting {name!r}; {accepted_names(str(name), names)}")
        accepts = accepted_by(FIELDS[name])
        if not accepts.admits(value):
            raise UsageError(f"{name} of {where}, {kind}, must be {accepts.described}, got {value!r}")
    if "share" not in given:
        raise UsageError(f"{where}, {kind}, has no share; expected {ShareOf.described}")
    return kind, SourceSettings(**DEFAULTS.get(kind, {}) | given)


def _source(entry: Entry, number: int, gaussian: bool) -> tuple[UnrollSource, Any]:
    kind, given = checked(entry, number)
    if kind == "queue":
        return FreshQueue(given.capacity), given.share
    try:
        store = UnrollStore(given.capacity, INSERTIONS[given.insertion](given))
    except MemoryError:
        raise UsageError(
            f"capacity of source {number} of the mix, {kind}, is {given.capacity}; that fits no memory"
        ) from None
    measures = kind == "elite" or store.insertion.uses_distances
    distance = UnrollDistance(given.distance, given.norm, gaussian) if measures else None
    refresh = given.refresh if measures else 0
    selector = _selector(kind, given, gaussian)
    return UnrollReplay(store, selector, distance, refresh, given.fill_in, name=kind), given.share


def _selector(kind: str, given: SourceSettings, gaussian: bool) -> Selector:
    if kind == "prioritized":
        return Prioritized(given.alpha, given.beta)
    if kind == "elite":
        return Elite(given.multiplier, given.alpha, given.strategy, how_far=as_stored)
    if kind == "attentive":
        how_far = ToNewest(UnrollDistance(given.distance, given.norm, gaussian))
        return Attentive(given.multiplier, how_far=how_far, alpha=given.alpha)
    return Uniform()
