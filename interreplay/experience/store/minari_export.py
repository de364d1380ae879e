"""Export of a store to a Minari dataset."""

from __future__ import annotations

import copy
import warnings
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import torch

from interreplay.environments.actions import actions_of
from interreplay.environments.spaces import leaves, nested
from interreplay.errors import UsageError
from interreplay.experience.store.reader import ExperienceStore
from interreplay.transitions import Transitions, cat, observation_parts


def write_minari(store: ExperienceStore, name: str, newest: int | None = None) -> str:
    """Write the episodes of a store as a Minari dataset, with actions in the environment's units.

    An episode that was interrupted is truncated. An episode whose beginning was dropped starts with its first row. A
    game of Atari, in which each lost life is a termination, becomes an episode per life.

    Args:
        store: The store.
        name: Name of the new dataset.
        newest: Number of newest episodes, or games, to write; None for all.

    Returns:
        The name with the numbers of episodes and steps.

    Raises:
        UsageError: The store is damaged, or Minari rejects its spaces.
    """
    import minari
    from minari.data_collector import EpisodeBuffer

    store.check()
    rows = cat(list(store.portions()))
    assert rows.episode is not None
    found = store.episodes()
    chosen = found.ids[-(newest or len(found.ids)) :]
    order = torch.argsort(rows.episode, stable=True)
    sorted_ids = rows.episode[order]
    buffers: list[EpisodeBuffer] = []
    for number in chosen.tolist():
        first, last = torch.searchsorted(sorted_ids, torch.tensor([number, number + 1])).tolist()
        episode = rows[order[first:last]]
        ends = torch.nonzero(episode.terminated | episode.truncated).flatten() + 1
        for part in torch.arange(len(episode)).tensor_split(ends):
            if len(part):
                buffers.append(EpisodeBuffer(id=len(buffers), **_episode(store, episode[part])))
    header = store.header
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Minari warns about missing authors and links
            dataset = minari.create_dataset_from_buffers(
                name,
                buffers,
                env=_spec(header.env, header.env_args),
                observation_space=header.observation_space,
                action_space=header.action_space,
                algorithm_name=str(header.about.get("trainer", "unknown")),
                requirements=[],
                data_format="hdf5" if find_spec("h5py") else "arrow",
            )
    except (ValueError, TypeError, AssertionError) as error:
        raise UsageError(f"Minari cannot store {store.folder}: {' '.join(str(error).split())}") from error
    return f"{name} ({dataset.total_episodes} episodes, {dataset.total_steps:,} steps)"


def _episode(store: ExperienceStore, rows: Transitions) -> dict[str, Any]:
    """Return the columns of one episode in Minari's format."""
    space = store.header.observation_space
    following = observation_parts(rows.next_obs)
    parts = {}
    for part, column in observation_parts(rows.obs).items():
        dtype = leaves(space)[part].dtype
        parts[part] = torch.cat([column, following[part][-1:]]).numpy().astype(dtype)
    terminated = rows.terminated.numpy()
    truncated = rows.truncated.numpy().copy()
    truncated[-1] |= not terminated[-1]
    return {
        "observations": _listed(nested(space, parts)),
        "actions": _listed(actions_of(store.header.action_space).to_env(rows.actions.numpy())),
        "rewards": rows.rewards.double().tolist(),
        "terminations": terminated.tolist(),
        "truncations": truncated.tolist(),
    }


def _listed(value: Any) -> Any:
    """Return arrays of many steps as lists of steps."""
    if isinstance(value, dict):
        return {name: _listed(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_listed, value))
    return list(value)


def _spec(env: str, arguments: dict[str, Any]) -> Any:
    """Return the specification of an environment for Minari; None if it is not registered or not serializable."""
    try:
        found = copy.deepcopy(gym.spec(env))
        own = dict(arguments)
        found.max_episode_steps = own.pop("max_episode_steps", found.max_episode_steps)
        found.kwargs = {**found.kwargs, **own}
        found.to_json()
    except Exception:  # unknown environment, or the entry point is a function
        return None
    return found
