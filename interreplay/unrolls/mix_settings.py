"""Settings of a mix of unrolls: one mapping per source.

```yaml
- {type: queue, capacity: 1, share: 0.5}
- {type: elite, capacity: 10000, share: 0.5, insertion: reservoir, strategy: 3, distance: kl}
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass
from typing import Any

from interreplay.errors import UsageError, accepted_names
from interreplay.learning.setting_fields import Accepts, Number, OneOf, WholeNumber, get_accepted_values, setting
from interreplay.selection import Attentive, Elite, Prioritized, Selector, Uniform
from interreplay.unrolls.distances import KINDS, DistanceToNewest, UnrollDistance, stored_distances
from interreplay.unrolls.mixture import UnrollMix, UnrollSource, make_shares
from interreplay.unrolls.queue import FreshQueue
from interreplay.unrolls.replay import CachedReplay, UnrollReplay
from interreplay.unrolls.storage import insertion
from interreplay.unrolls.storage.store import UnrollStore

Entry = Mapping[str, Any]
"""``{"type": …, "share": …}`` with further settings of the type."""

INSERTIONS: dict[str, Callable[[SourceSettings], insertion.Insertion]] = {
    "fifo": lambda given: insertion.Fifo(),
    "reservoir": lambda given: insertion.Reservoir(),
    "elite": lambda given: insertion.Elite(given.candidates),
}


class ShareOf(Accepts):
    """Accepts a share of each batch, or two: at the start and at the end of the run."""

    described = "a number of at least 0, at most 1, or two such as [0.5, 1]"
    metavar = "SHARE"

    def admits(self, value: Any) -> bool:
        if not isinstance(value, list | tuple):
            value = [value, value]
        return len(value) == 2 and all(map(Number(0, 1).admits, value))

    def parse(self, text: str) -> Any:
        ends = list(map(float, text.strip("[]()").split(",")))
        return ends[0] if len(ends) == 1 else ends


@dataclass(frozen=True)
class SourceSettings:
    """Settings of all types of sources; `TYPES` lists which apply to each type."""

    share: Any = setting(
        MISSING, ShareOf(), "share of each batch, or [share at the start, share at the end] of the run"
    )
    capacity: int = setting(1_000, WholeNumber(1), "number of unrolls")
    insertion: str = setting("fifo", OneOf(*INSERTIONS), "how the unroll to replace is chosen")
    fill_in: float = setting(0.0, Number(0, 1), "share of the capacity that is stored before unrolls are drawn")
    candidates: int = setting(20, WholeNumber(1), "unrolls to choose from; elite insertion replaces the furthest")
    distance: str = setting("kl", OneOf(*KINDS), "distance between the outputs of the behavior and the current policy")
    norm: float = setting(2.0, Number(0, open_low=True), "p of the distance ln")
    refresh: int = setting(4, WholeNumber(0), "number of unrolls per batch with a distance to measure again")
    multiplier: float = setting(6.0, Number(1), "candidates per drawn unroll at the start of the run")
    alpha: float = setting(
        2.0, Number(0, open_low=True), "exponent of the decrease of the multiplier, or of priorities"
    )
    strategy: int = setting(3, WholeNumber(1, 4), "which candidates are kept")
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
"""Defaults of types that differ from `SourceSettings`."""
FIELDS: dict[str, Field[Any]] = SourceSettings.__dataclass_fields__
STANDARD: tuple[Entry, ...] = (
    {"type": "queue", "capacity": 1, "share": 0.5},
    {"type": "uniform", "capacity": 1_000, "share": 0.5},
)
"""Half of each batch is fresh, half is replayed."""


def make_mix(entries: Sequence[Entry], gaussian: bool = False, caching: bool = False) -> UnrollMix:
    """Create a mix from its settings.

    Args:
        entries: One mapping per source.
        gaussian: Whether policies output [mean; log std] rather than logits.
        caching: Whether replayed unrolls are copied in a background thread, see `CachedReplay`.

    Raises:
        UsageError: If a setting is unknown or out of range, shares do not add up to 1, or no source is fresh.
    """
    replay_class = CachedReplay if caching else UnrollReplay
    sources = []
    for kind, given in check_entries(entries):
        sources.append((_make_source(kind, given, gaussian, replay_class), given.share))
    return UnrollMix(sources)


def check_entries(entries: Sequence[Entry]) -> list[tuple[str, SourceSettings]]:
    """Return the type and the settings of each source of a mix.

    Raises:
        UsageError: As `make_mix`.
    """
    if isinstance(entries, str | Mapping) or not isinstance(entries, Sequence):
        raise UsageError(f"a mix of unrolls is {entries!r}; expected a list of sources such as {list(STANDARD)}")
    sources = [source_settings(entry, number) for number, entry in enumerate(entries, 1)]
    make_shares([(kind, kind == "queue", given.share) for kind, given in sources])
    return sources


def source_settings(entry: Entry, number: int) -> tuple[str, SourceSettings]:
    """Return the type and the validated settings of a source; messages contain its number.

    Raises:
        UsageError: If the type or a setting is unknown, or a value is invalid.
    """
    where = f"source {number} of the mix"
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} is {entry!r}; expected a mapping such as {dict(STANDARD[0])}")
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        raise UsageError(f"{where} has the type {kind!r}; {accepted_names(str(kind), TYPES)}")
    names = TYPES[kind]
    if entry.get("insertion") == "elite":
        names = (*names, "candidates", *MEASURED)
    given = dict(entry)
    del given["type"]
    for name, value in given.items():
        if name not in names:
            raise UsageError(f"{where}, {kind}, has no setting {name!r}; {accepted_names(str(name), names)}")
        accepts = get_accepted_values(FIELDS[name])
        if not accepts.admits(value):
            raise UsageError(f"{name} of {where}, {kind}, must be {accepts.described}, got {value!r}")
    if "share" not in given:
        raise UsageError(f"{where}, {kind}, has no share; expected {ShareOf.described}")
    return kind, SourceSettings(**DEFAULTS.get(kind, {}) | given)


def _make_source(kind: str, given: SourceSettings, gaussian: bool, replay_class: type[UnrollReplay]) -> UnrollSource:
    if kind == "queue":
        return FreshQueue(given.capacity)
    try:
        store = UnrollStore(given.capacity, INSERTIONS[given.insertion](given))
    except MemoryError:
        raise UsageError(
            f"the capacity of a source of the mix, {kind}, is {given.capacity}; expected one that fits in memory"
        ) from None
    distance = UnrollDistance(given.distance, given.norm, gaussian)
    selector: Selector = Uniform()
    if kind == "prioritized":
        selector = Prioritized(given.alpha, given.beta)
    elif kind == "elite":
        selector = Elite(given.multiplier, given.alpha, given.strategy, distance_fn=stored_distances)
    elif kind == "attentive":
        selector = Attentive(given.multiplier, distance_fn=DistanceToNewest(distance), alpha=given.alpha)
    if kind == "elite" or store.insertion.uses_distances:
        return replay_class(store, selector, distance, given.refresh, given.fill_in, name=kind)
    return replay_class(store, selector, fill_in=given.fill_in, name=kind)
