"""Rows of one dataset or several: converted, filtered, and with recomputed rewards."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from interreplay.environments.actions import make_actions
from interreplay.environments.relabeled import Relabel
from interreplay.environments.spaces import as_column, space_to_record
from interreplay.errors import UsageError
from interreplay.experience.offline_data.dataset import Conversion, Dataset, Spaces
from interreplay.experience.offline_data.find import expand_pattern, find_dataset
from interreplay.experience.offline_data.where import Where
from interreplay.learning.update import SUCCESS_COLUMN
from interreplay.transitions import Transitions, map_observation, with_extras


class Collection:
    """Rows of recorded experience.

    Arguments are as for `Offline`. Repeated datasets and copies of a store are read once.

    Attributes:
        name: Name in messages.
        files: All files; if one changes, the rows may differ.

    Raises:
        UsageError: The data do not exist, cannot be read, or belong to another environment.
    """

    def __init__(
        self,
        data: str | Sequence[str],
        spaces: Spaces | None,
        where: Where | None = None,
        relabel: Relabel | None = None,
    ):
        self.name = get_data_name(data)
        self._where = where or Where()
        self._relabel = relabel
        found = _unique(data)
        env = self._where.env
        datasets = [dataset for dataset in found if env in ("", dataset.env)]
        if not datasets:
            known = sorted({dataset.env or "unknown" for dataset in found})
            raise UsageError(f"no rows of {env} in offline data {self.name}; expected {' or '.join(known)}")
        self._conversions: list[Conversion] = []
        self.files: list[Path] = []
        envs = sorted({dataset.env for dataset in datasets if dataset.env})
        for dataset in datasets:
            try:
                self._conversions.append(Conversion(dataset, spaces))
            except UsageError as error:
                if len(envs) < 2:
                    raise
                how = 'select an environment with --offline_where env=ID (in Python where="env=ID")'
                raise UsageError(f"{error}; {how}: {', '.join(envs)}") from None
            self.files += dataset.files
        self._spaces = spaces
        self._simple = len(datasets) == 1 and self._where == Where() and relabel is None

    @property
    def described(self) -> str:
        """Summary of everything except the files that affects the rows, for the key in the cache."""
        parts = [conversion.described for conversion in self._conversions]
        if self._simple:
            return parts[0]
        if self._relabel is not None:  # the function receives actions in the environment's units
            parts.append(self._relabel.digest)
            for conversion in self._conversions:
                parts.append(str(space_to_record(self._action_space(conversion.dataset))))
        return repr([parts, str(self._where)])

    @property
    def rows(self) -> int | None:
        """Number of rows; None if it is unknown before they are read. Conditions and relabeling read the data once."""
        if self._simple:
            return self._conversions[0].dataset.rows
        return int(self._facts["keep"].sum())

    @functools.cached_property
    def _facts(self) -> dict[str, np.ndarray]:
        """Columns ``(n,)`` of all datasets that filters use, and `keep`: which rows fulfill all conditions."""
        parts = list(filter(None, map(self._read_facts, self._conversions)))
        episodes = 0
        for part in parts:
            part["episode"] += episodes
            episodes = part["episode"].max() + 1
        facts = _concatenate(parts)
        if facts:
            facts["keep"] = self._select(facts)
        if not facts or not facts["keep"].any():
            raise UsageError(f"no rows with {self._where} in offline data {self.name}")
        return facts

    def portions(self) -> Iterator[Transitions]:
        """Yield the rows with the columns of the environment, with actions as stored in a replay buffer.

        Raises:
            UsageError: Rows are damaged or belong to another environment, relabeling failed, or no rows remain.
        """
        if self._simple:
            yield from self._conversions[0].portions()
            return
        facts = {}
        for name in ("rewards", "terminated", "episode", "keep"):
            facts[name] = torch.from_numpy(self._facts[name])
        samples = [next(conversion.dataset.portions(), None) for conversion in self._conversions]
        shared = set.intersection(*(set(rows.extras) for rows in samples if rows is not None))
        start = 0
        for rows in chain.from_iterable(conversion.portions() for conversion in self._conversions):
            own = {name: column[start : start + len(rows)] for name, column in facts.items()}
            start += len(rows)
            keep = own.pop("keep")
            yield with_extras(rows, shared).replace(**own)[keep]

    def _read_facts(self, conversion: Conversion) -> dict[str, np.ndarray]:
        """Read a dataset once and return the columns that filters use; no columns without rows."""
        dataset = conversion.dataset
        parts: list[dict[str, np.ndarray]] = []
        count = 0
        for rows in conversion.portions():
            found = {"rewards": rows.rewards.numpy(), "terminated": rows.terminated.numpy()}
            if self._relabel is not None:
                place = f"{dataset.name} after its first {count:,} rows"
                relabeled = relabel_rows(self._relabel, rows, self._action_space(dataset), place)
                found["rewards"], found["terminated"] = relabeled
            assert rows.episode is not None
            found["episode"] = rows.episode.numpy()
            found["last"] = found["terminated"] | rows.truncated.numpy()
            found["ended"] = found["last"] | rows.terminated.numpy()
            if self._where.success:
                if SUCCESS_COLUMN not in rows.extras:
                    raise UsageError(
                        f"offline data {dataset.name} does not record successes, which the condition requires"
                    )
                found["success"] = rows.extras[SUCCESS_COLUMN].numpy().astype(bool)
            parts.append(found)
            count += len(rows)
        facts = _concatenate(parts)
        if not facts:
            return facts
        facts["episode"] = number_episodes(facts["episode"], facts["last"])
        known = dataset.facts()
        if self._where.min_version is not None and "version" not in known:
            raise UsageError(
                f"offline data {dataset.name} does not record versions of the policy, which the condition requires; "
                "expected experience stores"
            )
        modified = max(path.stat().st_mtime for path in dataset.files)
        return facts | {"time": np.full(count, modified), "version": np.zeros(count, np.int64)} | known

    def _action_space(self, dataset: Dataset) -> Any:
        space = self._spaces[1] if self._spaces else dataset.action_space
        if space is None:
            raise UsageError(f"offline data {dataset.name} does not define its actions; pass spaces= to relabel it")
        return space

    def _select(self, facts: dict[str, np.ndarray]) -> np.ndarray:
        """Return which rows ``(n,)`` fulfill all conditions."""
        where = self._where
        episode = facts["episode"]
        keep = np.ones(len(episode), bool)
        if where.min_return is not None:
            last = np.zeros(episode.max() + 1, np.int64)
            last[episode] = np.arange(len(episode))  # the last row of each episode wins
            high = np.bincount(episode, facts["rewards"]) >= where.min_return
            keep &= (high & facts["ended"][last])[episode]
        if where.success:
            keep &= (np.bincount(episode, facts["success"]) > 0)[episode]
        if where.min_version is not None:
            keep &= facts["version"] >= where.min_version
        if where.newest is not None:  # among rows of equal time, the later ones
            kept = np.flatnonzero(keep)
            oldest_first = kept[np.argsort(facts["time"][kept], kind="stable")]
            keep[oldest_first[: -where.newest]] = False
        return keep


def _concatenate(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the columns of all parts, which have equal names; no columns without parts."""
    if not parts:
        return {}
    columns = {}
    for name in parts[0]:
        columns[name] = np.concatenate([part[name] for part in parts])
    return columns


def relabel_rows(relabel: Relabel, rows: Transitions, action_space: Any, place: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the recomputed rewards and terminations ``(n,)`` of stored rows."""
    columns = {
        "reward": rows.rewards.numpy(),
        "terminated": rows.terminated.numpy(),
        "truncated": rows.truncated.numpy(),
    }
    obs = map_observation(lambda column: column.numpy(), rows.obs)
    next_obs = map_observation(lambda column: column.numpy(), rows.next_obs)
    action = as_column(make_actions(action_space).to_env(rows.actions.numpy()))
    return relabel(obs, action, next_obs, columns, place)


def number_episodes(episode: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return episode numbers ``(n,)`` from 0, given episode ids and which rows end an episode ``(n,)``.

    Rows of an episode are in order; episodes may interleave. Rows after an end belong to another episode.
    """
    order = np.argsort(episode, kind="stable")
    begins = np.ones(len(order), bool)
    begins[1:] = (episode[order[1:]] != episode[order[:-1]]) | ends[order[:-1]]
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(begins) - 1
    return numbers


def get_data_name(data: str | Sequence[str]) -> str:
    """Return the name of the data for messages.

    Raises:
        UsageError: The data are neither a path or id nor a list of them, or the list is empty.
    """
    if isinstance(data, str):
        return data
    if not isinstance(data, Sequence):
        raise UsageError(f"offline data is {data!r}; expected a path or an id, or a list of them")
    if not data:
        raise UsageError("offline data: the list is empty; expected at least one path or id")
    return str(data[0]) if len(data) == 1 else f"{data[0]} and {len(data) - 1} more"


def _unique(data: str | Sequence[str]) -> list[Dataset]:
    """Return the datasets without duplicates; of copies of a store, the one with the most rows.

    Without an id, a dataset is identified by its files. Of a folder and files in it, only the folder is returned.

    Raises:
        UsageError: Two datasets share only some of their files.
    """
    names = [data]
    if not isinstance(data, str):
        names = list(data)
    found: dict[str | frozenset[Path], Dataset] = {}
    for name in names:
        for path in expand_pattern(str(name)):
            dataset = find_dataset(path)
            if not dataset.id:
                _insert_files(found, dataset)
                continue
            before = found.get(dataset.id)
            if before is None or (dataset.rows or 0) > (before.rows or 0):
                found[dataset.id] = dataset
    return list(found.values())


def _insert_files(found: dict[str | frozenset[Path], Dataset], dataset: Dataset) -> None:
    """Insert a dataset without an id, unless another one contains its files; it replaces those that it contains."""
    files = frozenset(Path(file).resolve() for file in dataset.files)
    for other in list(found):
        if isinstance(other, str) or not other & files:
            continue
        if other >= files:
            return
        if not other < files:
            raise UsageError(
                f"offline data {dataset.name} and {found[other].name} share {len(other & files)} files, but each has "
                "others; expected datasets without common files"
            )
        del found[other]
    found[files] = dataset
