"""Rows of one dataset or several: converted, filtered, and with recomputed rewards."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from interreplay.environments.actions import make_actions
from interreplay.environments.relabeled import Relabel
from interreplay.environments.spaces import as_column, space_to_record
from interreplay.errors import UsageError
from interreplay.experience.offline_data.conversion import Conversion, Spaces
from interreplay.experience.offline_data.dataset import Dataset
from interreplay.experience.offline_data.find import expand_pattern, find_dataset
from interreplay.experience.offline_data.where import Where
from interreplay.learning.update import SUCCESS_COLUMN
from interreplay.transitions import Transitions, map_observation, with_extras


@dataclass
class FilterColumns:
    """Columns of a dataset that filters use.

    Attributes:
        rewards: Rewards to learn from ``(n,)``, recomputed if relabeled.
        terminated: Terminations ``(n,)``, recomputed if relabeled.
        episodes: Episode numbers ``(n,)`` from 0. Every termination ends an episode, including recomputed ones.
        keep: Whether each row fulfills the conditions ``(n,)``.
        times: Times of the rows ``(n,)`` in Unix seconds.
    """

    rewards: np.ndarray
    terminated: np.ndarray
    episodes: np.ndarray
    keep: np.ndarray
    times: np.ndarray


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
            parts += [str(space_to_record(self._action_space(each.dataset))) for each in self._conversions]
        return repr([parts, str(self._where)])

    @property
    def rows(self) -> int | None:
        """Number of rows; None if it is unknown before they are read. Conditions and relabeling read the data once."""
        if self._simple:
            return self._conversions[0].dataset.rows
        return sum(int(found.keep.sum()) for found in self._all_facts)

    @functools.cached_property
    def _all_facts(self) -> list[FilterColumns]:
        """The columns of all datasets that filters use, with `keep` after all conditions."""
        facts = list(map(self._facts, self._conversions))
        self._keep_newest(facts)
        if not any(found.keep.any() for found in facts):
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
        extras = [set(next(conversion.dataset.portions()).extras) for conversion in self._conversions]
        shared = set.intersection(*extras)
        first_episode = 0
        for conversion, found in zip(self._conversions, self._all_facts, strict=True):
            start = 0
            for rows in conversion.portions():
                part = slice(start, start + len(rows))
                start += len(rows)
                changed = with_extras(rows, shared).replace(
                    rewards=torch.from_numpy(found.rewards[part]),
                    terminated=torch.from_numpy(found.terminated[part]),
                    episode=torch.from_numpy(first_episode + found.episodes[part]),
                )
                yield changed[torch.from_numpy(found.keep[part])]
            first_episode += int(found.episodes.max(initial=-1)) + 1

    def _facts(self, conversion: Conversion) -> FilterColumns:
        """Read a dataset once and return the columns that filters use."""
        dataset = conversion.dataset
        parts: dict[str, list[np.ndarray]] = {}
        count = 0
        for rows in conversion.portions():
            rewards = rows.rewards.numpy()
            terminated = rows.terminated.numpy()
            if self._relabel is not None:
                place = f"{dataset.name} after its first {count:,} rows"
                rewards, terminated = relabel_rows(self._relabel, rows, self._action_space(dataset), place)
            assert rows.episode is not None
            row = {"rewards": rewards, "terminated": terminated, "truncated": rows.truncated.numpy()}
            row["episode"] = rows.episode.numpy()
            row["ended"] = rows.terminated.numpy() | terminated | row["truncated"]
            if SUCCESS_COLUMN in rows.extras:
                row["success"] = rows.extras[SUCCESS_COLUMN].numpy().astype(bool)
            for name, column in row.items():
                parts.setdefault(name, []).append(column)
            count += len(rows)
        found = {name: np.concatenate(columns) for name, columns in parts.items()}
        if not count:
            empty = np.empty(0)
            return FilterColumns(
                empty.astype(np.float32), empty > 0, empty.astype(np.int64), keep=empty > 0, times=empty
            )
        episodes = number_episodes(found["episode"], found["terminated"] | found["truncated"])
        known = dataset.facts()
        times = known.get("time")
        if times is None:
            times = np.full(count, max(path.stat().st_mtime for path in dataset.files))
        keep = self._select(dataset, episodes, found, known)
        return FilterColumns(found["rewards"], found["terminated"], episodes, keep=keep, times=times)

    def _action_space(self, dataset: Dataset) -> Any:
        space = self._spaces[1] if self._spaces else dataset.action_space
        if space is None:
            raise UsageError(f"offline data {dataset.name} does not define its actions; pass spaces= to relabel it")
        return space

    def _select(
        self, dataset: Dataset, episodes: np.ndarray, found: dict[str, np.ndarray], known: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Return which rows ``(n,)`` fulfill all conditions except `newest`."""
        where = self._where
        keep = np.ones(len(episodes), bool)
        if where.min_return is not None:
            last = np.zeros(episodes.max() + 1, np.int64)
            last[episodes] = np.arange(len(episodes))  # the last row of each episode wins
            high = np.bincount(episodes, found["rewards"]) >= where.min_return
            keep &= (high & found["ended"][last])[episodes]
        if where.success:
            if "success" not in found:
                raise UsageError(f"offline data {dataset.name} does not record successes, which the condition requires")
            keep &= (np.bincount(episodes, found["success"]) > 0)[episodes]
        if where.min_version is not None:
            if "version" not in known:
                raise UsageError(
                    f"offline data {dataset.name} does not record versions of the policy, which the condition "
                    "requires; expected experience stores"
                )
            keep &= known["version"] >= where.min_version
        return keep

    def _keep_newest(self, facts: list[FilterColumns]) -> None:
        """Keep the newest rows of all datasets; among rows of equal time, the later ones."""
        newest = self._where.newest
        places = [np.flatnonzero(found.keep) for found in facts]
        total = sum(map(len, places))
        if newest is None or total <= newest:
            return
        times = np.concatenate([found.times[place] for found, place in zip(facts, places, strict=True)])
        dropped = np.zeros(total, bool)
        dropped[np.argsort(times, kind="stable")[: total - newest]] = True
        start = 0
        for found, place in zip(facts, places, strict=True):
            found.keep[place[dropped[start : start + len(place)]]] = False
            start += len(place)


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
