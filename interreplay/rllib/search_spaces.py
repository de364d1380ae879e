"""Search spaces of Ray Tune in place of values: `tune.grid_search` and what is drawn for each trial."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from ray.tune.search.sample import Categorical, Domain

GRID = "grid_search"


def is_search_space(value: Any) -> bool:
    """Return whether Tune chooses this value for each trial."""
    return isinstance(value, Domain) or (isinstance(value, Mapping) and set(value) == {GRID})


def has_search_space(value: Any) -> bool:
    """Return whether Tune chooses this value, or a part of it, for each trial."""
    if is_search_space(value):
        return True
    if isinstance(value, Mapping):
        return any(map(has_search_space, value.values()))
    return isinstance(value, list | tuple) and any(map(has_search_space, value))


def choices(space: Any) -> list[Any]:
    """Return the values that a search space lists; [] for distributions and functions."""
    if isinstance(space, Categorical):
        return list(space.categories)
    return list(space[GRID]) if isinstance(space, Mapping) and isinstance(space[GRID], list | tuple) else []


def with_choices(space: Any, change: Callable[[Any], Any]) -> Any:
    """Return a search space with each value that it lists changed; one that lists none stays as it is."""
    changed = [change(value) for value in choices(space)]
    if not changed:
        return space
    if isinstance(space, Categorical):
        made = copy.copy(space)
        made.categories = changed
        return made
    return {GRID: changed}
