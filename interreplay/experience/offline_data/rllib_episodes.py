"""RLlib's offline data: Parquet files of episodes, as an algorithm with ``offline_data(output=...)`` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from interreplay.environments.spaces import name_parts
from interreplay.errors import UsageError
from interreplay.experience.offline_data.dataset import Dataset, episode_rows, reading
from interreplay.transitions import Transitions

ITEM = "item"
"""The column of packed episodes."""
COLUMNS = {"observations", "actions", "rewards", "is_terminated", "is_truncated"}
"""Entries of an episode that are used."""


def parquet_files(path: Path) -> list[Path]:
    """Return the Parquet files of a path: the file itself, or all files in a folder."""
    if path.is_file():
        return [path] if path.suffix == ".parquet" else []
    return sorted(path.rglob("*.parquet"))


def open_parquet(name: str, files: list[Path]) -> Dataset:
    """Return the episodes in Parquet files; actions are the outputs of the policy, clipped to [−1, 1].

    RLlib records these outputs unless ``normalize_actions`` is False; its env runners clip them before scaling.
    Without ``output_max_rows_per_file``, RLlib writes all previous episodes again in each iteration; copies are left
    out. Fragments of an episode, which RLlib writes after each sample, are joined.
    """
    import msgpack
    import pyarrow.parquet

    found: dict[Any, dict[str, Any]] = {}
    with reading(name):
        for file in files:
            table = pyarrow.parquet.read_table(file)
            if ITEM not in table.column_names:
                raise UsageError(
                    f"offline data {name}: {file.name} has the columns {', '.join(table.column_names)}; expected "
                    f"episodes in the column {ITEM}, as offline_data(output_write_episodes=True) writes them"
                )
            for packed in table.column(ITEM).to_pylist():
                episode = msgpack.unpackb(packed, object_hook=_decode_array, strict_map_key=False, raw=False)
                lacking = COLUMNS - set(episode)
                if lacking:
                    raise UsageError(
                        f"offline data {name}: an episode has no {min(lacking)}; expected RLlib's SingleAgentEpisode"
                    )
                key: Any = len(found)  # without an id, an episode is not a copy
                if episode.get("id_") is not None:
                    key = (str(episode["id_"]), episode.get("t_started"), episode.get("t"))
                found.setdefault(key, episode)
    if not found:
        raise UsageError(f"offline data {name} holds no episodes")
    with reading(name):
        episodes = _number_fragments(found.values())

    def portions() -> Iterator[Transitions]:
        for number, episode in episodes:
            with reading(name):
                yield _rows(name, number, episode)

    return Dataset(name, files, portions, normalized=True)


def _number_fragments(fragments: Iterable[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return fragments with the numbers of their episodes; the fragments of an episode are consecutive and in order."""
    by_id: dict[Any, list[dict[str, Any]]] = {}
    for position, fragment in enumerate(fragments):
        key = position if fragment.get("id_") is None else str(fragment["id_"])
        by_id.setdefault(key, []).append(fragment)
    numbered: list[tuple[int, dict[str, Any]]] = []
    number = -1
    for of_episode in by_id.values():
        reached = None
        for fragment in sorted(of_episode, key=lambda each: each.get("t_started") or 0):
            if reached is None or fragment.get("t_started") != reached:
                number += 1
            numbered.append((number, fragment))
            reached = fragment.get("t")
    return numbered


def _decode_array(value: dict[Any, Any]) -> Any:
    """Decode an array in the format of msgpack-numpy, to None if it is pickled; return other mappings unchanged."""
    fields = {}
    for key, content in value.items():
        if isinstance(key, bytes):
            key = key.decode()
        fields[key] = content
    if "nd" not in fields:
        return value
    if fields.get("kind") in (b"O", "O"):
        return None  # objects such as infos, which are not used
    kind = fields["type"]
    if not isinstance(kind, str | bytes):
        kind = list(map(tuple, kind))
    array = np.frombuffer(fields["data"], np.dtype(kind))
    return array.reshape(fields["shape"]) if fields["nd"] else array[0]


def _rows(name: str, number: int, episode: Mapping[str, Any]) -> Transitions:
    obs = name_parts(_steps(episode["observations"]))
    actions = _steps(episode["actions"])
    rewards = _steps(episode["rewards"])
    if isinstance(actions, dict | tuple):
        raise UsageError(f"offline data {name}: actions have several parts; expected one array")
    actions = np.clip(actions, -1.0, 1.0) if actions.dtype.kind == "f" else actions.astype(np.int64)
    last = np.arange(1, len(actions) + 1) == len(actions)
    terminated = last & bool(episode["is_terminated"])
    truncated = last & bool(episode["is_truncated"])
    rows = episode_rows(name, number, obs, actions=actions, rewards=rewards, terminated=terminated, truncated=truncated)
    return rows.replace(truncated=torch.from_numpy(truncated))  # an end without a mark may be continued


def _steps(buffer: Mapping[str, Any]) -> Any:
    """Return the contents of one of RLlib's buffers without its lookback; a list of steps becomes one array."""
    return _stack(buffer["data"], int(buffer.get("lookback") or 0))


def _stack(data: Any, start: int) -> Any:
    if isinstance(data, Mapping):
        return {name: _stack(part, start) for name, part in data.items()}
    if isinstance(data, list) and data and isinstance(data[0], Mapping):
        stacked = {}
        for name in data[0]:
            stacked[name] = _stack([step[name] for step in data], start)
        return stacked
    return np.asarray(data)[start:]
