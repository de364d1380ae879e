"""Export of a store to a Minari dataset."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import torch

from interreplay.environments.actions import make_actions
from interreplay.environments.spaces import leaves, nested
from interreplay.experience.offline_data.minari_episodes import write
from interreplay.experience.store.reader import ExperienceStore
from interreplay.transitions import Transitions, cat, observation_parts


def write_minari(store: ExperienceStore, name: str, newest: int | None = None) -> str:
    """Write the episodes of a store as a Minari dataset, with actions in the environment's units.

    An episode that was interrupted is truncated. An episode whose beginning was dropped starts with its first row. A
    game of Atari, in which each lost life is a termination, becomes an episode per life. Only the `newest` episodes, or
    games, are written; None for all. Return the name with the numbers of episodes and steps.
    """
    header = store.header
    return write(
        name,
        episodes=_episodes(store, newest),
        spaces=(header.observation_space, header.action_space),
        spec=_spec(header.env, header.env_args),
        algorithm=str(header.about.get("trainer", "unknown")),
    )


def _episodes(store: ExperienceStore, newest: int | None) -> Iterator[dict[str, Any]]:
    """Yield the columns of the newest episodes in Minari's format; None for all."""
    store.check()
    rows = cat(list(store.portions()))
    assert rows.episode is not None
    ids = store.episodes().ids
    chosen = ids[-(newest or len(ids)) :]
    order = torch.argsort(rows.episode, stable=True)
    sorted_ids = rows.episode[order]
    for number in chosen.tolist():
        first, last = torch.searchsorted(sorted_ids, torch.tensor([number, number + 1])).tolist()
        episode = rows[order[first:last]]
        ends = torch.nonzero(episode.terminated | episode.truncated).flatten() + 1
        for part in torch.arange(len(episode)).tensor_split(ends):
            if len(part):
                yield _episode(store, episode[part])


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
        "observations": nested(space, parts),
        "actions": make_actions(store.header.action_space).to_env(rows.actions.numpy()),
        "rewards": rows.rewards.double().numpy(),
        "terminations": terminated,
        "truncations": truncated,
    }


def _spec(env: str, arguments: dict[str, Any]) -> Any:
    """Return the specification of an environment; None if it is not registered or cannot be copied."""
    try:
        found = copy.deepcopy(gym.spec(env))
        own = dict(arguments)
        found.max_episode_steps = own.pop("max_episode_steps", found.max_episode_steps)
        found.kwargs = {**found.kwargs, **own}
    except Exception:  # unknown environment
        return None
    return found
