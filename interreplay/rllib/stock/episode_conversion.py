"""Conversion between RLlib's episodes and our transitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.spaces.space_utils import batch as stack

from interreplay.buffer import Sample
from interreplay.transitions import Observation, Transitions, cat, map_observation, to_arrays


class EpisodeIds(dict[str, int]):
    """The integer of each episode with a stored row; RLlib identifies episodes by strings, the storage by integers.

    Attributes:
        written: Number of rows ever stored.
        ends: Value of `written` after each episode's newest row, in rising order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.ends: dict[str, int] = {}
        self._next = 0

    def write(self, chunks: Sequence[SingleAgentEpisode]) -> list[int]:
        """Record that the rows of `chunks` are stored in this order; return the integer of each chunk."""
        for chunk in chunks:
            if chunk.id_ not in self:
                self[chunk.id_] = self._next
                self._next += 1
            self.written += len(chunk)
            self.ends.pop(chunk.id_, None)
            self.ends[chunk.id_] = self.written
        return [self[chunk.id_] for chunk in chunks]

    def forget(self, capacity: int) -> int:
        """Drop episodes without a row among the newest `capacity` ones; return their number."""
        gone = []
        for name, end in self.ends.items():
            if end > self.written - capacity:
                break
            gone.append(name)
        for name in gone:
            del self.ends[name]
            del self[name]
        return len(gone)


def to_transitions(chunks: Sequence[SingleAgentEpisode], ids: Sequence[int]) -> Transitions:
    """Return the rows of non-empty episode chunks as one block of transitions, chunk after chunk.

    A chunk may continue an episode that was partly added before. Its copy of that beginning (its lookback) is not
    repeated.

    Raises:
        ValueError: The observations are neither arrays nor dicts of arrays.
    """
    return cat(list(map(_rows, chunks, ids)))


def _rows(chunk: SingleAgentEpisode, episode: int) -> Transitions:
    steps = len(chunk)
    observations = _array(chunk.get_observations(slice(0, steps + 1)))
    last = np.arange(steps) == steps - 1
    return Transitions(
        obs=map_observation(lambda part: part[:-1], observations),
        actions=_array(chunk.get_actions(slice(0, steps))),
        rewards=np.asarray(chunk.get_rewards(slice(0, steps)), dtype=np.float32),
        next_obs=map_observation(lambda part: part[1:], observations),
        terminated=last & bool(chunk.is_terminated),
        truncated=last & bool(chunk.is_truncated),
        episode=np.full(steps, episode),
    )


def _array(values: Any) -> Any:
    """Return one array with a row per step, or a dict of arrays, from a list of steps or from such an array."""
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = list(values)
    if isinstance(values, list):
        values = stack(values)
    parts = values.values() if isinstance(values, dict) else [values]
    if not all(isinstance(part, np.ndarray) for part in parts):
        raise ValueError(f"an episode contains {type(values).__name__}s; replay takes arrays or dicts of arrays")
    return values


def _per_row(obs: Observation) -> list[Any]:
    """Return the n observations of a column ``(n, ...)``, each an array or a dict of arrays."""
    if isinstance(obs, dict):
        parts = to_arrays(obs)
        return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    return list(obs.cpu().numpy())


def to_episodes(sample: Sample, steps: np.ndarray, spaces: dict[str, Any], to_numpy: bool) -> list[SingleAgentEpisode]:
    """Return one episode of one step per sampled row, as RLlib's learner connectors expect.

    Args:
        sample: Sample of n rows.
        steps: Number of environment steps ``(n,)`` that each row spans; the learner discounts by γ^steps.
        spaces: ``observation_space`` and ``action_space`` to set on each episode.
        to_numpy: Let the episodes hold arrays instead of lists.
    """
    rows = sample.transitions
    obs = _per_row(rows.obs)
    next_obs = _per_row(rows.next_obs)
    combined = sample.weights if sample.row_weights is None else sample.weights * sample.row_weights
    weights = combined.cpu().numpy()
    actions = rows.actions.cpu().numpy()
    rewards = rows.rewards.tolist()
    terminated = rows.terminated.tolist()
    truncated = rows.truncated.tolist()
    episodes = []
    for i in range(len(rewards)):
        episode = SingleAgentEpisode(
            observations=[obs[i], next_obs[i]],
            actions=[actions[i]],
            rewards=[rewards[i]],
            terminated=terminated[i],
            truncated=truncated[i],
            extra_model_outputs={"weights": [weights[i]], "n_step": [steps[i]]},
            len_lookback_buffer=0,
            **spaces,
        )
        episodes.append(episode.to_numpy() if to_numpy else episode)
    return episodes
