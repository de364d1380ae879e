"""What RLlib reports about a replay buffer under ``replay_buffer`` in its results."""

from __future__ import annotations

from typing import Any

from ray.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer


def log_added(
    buffer: EpisodeReplayBuffer, *, episodes: int, steps: int, episodes_evicted: int, steps_evicted: int
) -> None:
    """Log one call of `add`: how many episodes began and steps came, how many of each made room."""
    counts = {"episodes_added": episodes, "steps_added": steps}
    counts |= {"episodes_evicted": episodes_evicted, "steps_evicted": steps_evicted}
    buffer._update_add_metrics(
        num_episodes_added=episodes,
        num_env_steps_added=steps,
        num_episodes_evicted=episodes_evicted,
        num_env_steps_evicted=steps_evicted,
        **_for_the_one_agent(counts),
    )


def log_drawn(buffer: EpisodeReplayBuffer, *, steps: int, different_steps: int, episodes: int, n_step: float) -> None:
    """Log one call of `sample`: rows drawn, different rows and episodes among them, and the mean n-step."""
    buffer.sampled_timesteps += steps
    counts = {"steps_sampled": steps, "steps_per_sample": different_steps, "episodes_per_sample": episodes}
    buffer._update_sample_metrics(
        num_env_steps_sampled=steps,
        num_env_steps_per_sample=different_steps,
        num_episodes_per_sample=episodes,
        sampled_n_step=n_step,
        num_resamples=0,
        agent_to_sampled_n_step={DEFAULT_AGENT_ID: n_step},
        module_to_sampled_n_step={DEFAULT_MODULE_ID: n_step},
        **_for_the_one_agent(counts | {"resamples": 0}),
    )


def _for_the_one_agent(counts: dict[str, int]) -> dict[str, Any]:
    """Return RLlib's keywords ``agent_to_num_…`` and ``module_to_num_…``, with the same counts for agent and module."""
    owners = {"agent": DEFAULT_AGENT_ID, "module": DEFAULT_MODULE_ID}
    return {f"{kind}_to_num_{name}": {owner: n} for kind, owner in owners.items() for name, n in counts.items()}
