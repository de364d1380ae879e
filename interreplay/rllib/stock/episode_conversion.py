"""The edge to RLlib's episodes: chunks of them become transitions, sampled rows become one-step episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.spaces.space_utils import batch as stack

from interreplay.buffer import Sample
from interreplay.transitions import Observation, Transitions

Columns = dict[str, Any]


def transitions_of(chunks: Sequence[SingleAgentEpisode], ids: Sequence[int]) -> Transitions:
    """Return the rows of episode chunks as one block of transitions.

    A chunk may continue an episode whose beginning was added before. What it carries of that beginning (its
    lookback) is not repeated here.

    Args:
        chunks: Episodes or parts of them, each at least one step long.
        ids: The integer id of each one's episode.

    Returns:
        Transitions of as many rows as the chunks have steps, chunk after chunk.

    Raises:
        ValueError: When the observations are neither arrays nor dicts of arrays.
    """
    columns = [_columns(chunk) | {"episode": np.full(len(chunk), i)} for chunk, i in zip(chunks, ids, strict=True)]
    return Transitions(**{name: _join([c[name] for c in columns]) for name in columns[0]})


def _columns(chunk: SingleAgentEpisode) -> Columns:
    steps = len(chunk)
    observations = _array(chunk.get_observations(slice(0, steps + 1)))
    last = np.arange(steps) == steps - 1
    return {
        "obs": _map(lambda o: o[:-1], observations),
        "actions": _array(chunk.get_actions(slice(0, steps))),
        "rewards": np.asarray(chunk.get_rewards(slice(0, steps)), dtype=np.float32),
        "next_obs": _map(lambda o: o[1:], observations),
        "terminated": last & bool(chunk.is_terminated),
        "truncated": last & bool(chunk.is_truncated),
    }


def _array(values: Any) -> Any:
    """Return one array with a row per step, or a dict of such, from a list of steps or from such an array."""
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = list(values)
    values = stack(values) if isinstance(values, list) else values
    parts = values.values() if isinstance(values, dict) else [values]
    if not all(isinstance(part, np.ndarray) for part in parts):
        raise ValueError(f"an episode holds {type(values).__name__}s; replay takes arrays or dicts of arrays")
    return values


def _map(fn: Any, *values: Any) -> Any:
    if isinstance(values[0], dict):
        return {name: fn(*(v[name] for v in values)) for name in values[0]}
    return fn(*values)


def _join(columns: list[Any]) -> Any:
    return _map(lambda *parts: np.concatenate(parts), *columns)


def _per_row(obs: Observation) -> list[Any]:
    """Return the n observations of a column ``(n, ...)``, each an array or a dict of arrays."""
    if isinstance(obs, dict):
        parts = {name: part.cpu().numpy() for name, part in obs.items()}
        return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    return list(obs.cpu().numpy())


def episodes_of(sample: Sample, steps: np.ndarray, spaces: Columns, to_numpy: bool) -> list[SingleAgentEpisode]:
    """Return one episode of one step per sampled row, as RLlib's learner connectors take them.

    Args:
        sample: n rows.
        steps: Number of environment steps ``(n,)`` that each row spans; the learner discounts by γ^steps.
        spaces: ``observation_space`` and ``action_space`` to set on each episode.
        to_numpy: Let the episodes hold arrays in place of lists.
    """
    rows = sample.transitions
    obs, next_obs = (_per_row(o) for o in (rows.obs, rows.next_obs))
    combined = sample.weights if sample.row_weights is None else sample.weights * sample.row_weights
    actions, weights = rows.actions.cpu().numpy(), combined.cpu().numpy()
    rewards, terminated, truncated = (getattr(rows, name).tolist() for name in ("rewards", "terminated", "truncated"))
    episodes = [
        SingleAgentEpisode(
            observations=[obs[i], next_obs[i]],
            actions=[actions[i]],
            rewards=[rewards[i]],
            terminated=terminated[i],
            truncated=truncated[i],
            extra_model_outputs={"weights": [weights[i]], "n_step": [steps[i]]},
            len_lookback_buffer=0,
            **spaces,
        )
        for i in range(len(rewards))
    ]
    return [episode.to_numpy() for episode in episodes] if to_numpy else episodes
