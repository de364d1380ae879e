"""What RLlib's own episode buffers do with n-step returns and TD errors: the reasons why ours do it themselves."""

from __future__ import annotations

import numpy as np
import pytest
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import TD_ERROR_KEY
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer
from ray.rllib.utils.replay_buffers.utils import update_priorities_in_episode_replay_buffer


class Foreign(PrioritizedEpisodeReplayBuffer):
    """A buffer unknown to RLlib."""


def episode_of(length, terminated=True):
    episode = SingleAgentEpisode(observations=[np.zeros(1, np.float32)], infos=[{}], len_lookback_buffer=0)
    for t in range(1, length + 1):
        done = terminated and t == length
        episode.add_env_step(np.full(1, t, np.float32), 0, 1.0, {}, terminated=done)
    return episode


def drawn(buffer, n_step, size=400):
    """What `size` draws from one terminated episode of 6 steps give: start, n_step, terminated, last observation."""
    buffer.add([episode_of(6)])
    rows = buffer.sample(num_items=size, n_step=n_step, gamma=0.9, beta=0.0, sample_episodes=True)
    return {
        (e.t_started, int(e.get_extra_model_outputs("n_step", 0)), bool(e.is_terminated), float(e.observations[-1][0]))
        for e in rows
    }


def test_uniform_n_step_marks_the_tail_of_a_terminated_episode_wrongly():
    rows = {start: rest for start, *rest in drawn(EpisodeReplayBuffer(100), n_step=3)}
    assert rows[4] == [3, False, 6.0] and rows[5] == [3, False, 6.0], "cut short, yet n_step 3 and not terminated"
    assert rows[3] == [3, True, 6.0]


def test_prioritized_n_step_never_returns_the_tail():
    assert {start for start, *_ in drawn(PrioritizedEpisodeReplayBuffer(100), n_step=3)} == {0, 1, 2, 3}


@pytest.mark.parametrize("kind", [EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer])
def test_an_n_step_range_excludes_its_upper_end(kind):
    assert {n for _, n, *_ in drawn(kind(100), n_step=(1, 3))} == {1, 2}


@pytest.mark.parametrize("kind, receives", [(EpisodeReplayBuffer, False), (Foreign, True)])
def test_td_errors_return_only_to_prioritized_episode_buffers(kind, receives):
    buffer, calls = kind(100), []
    buffer.update_priorities = lambda *arguments: calls.append(arguments)
    update_priorities_in_episode_replay_buffer(
        replay_buffer=buffer, td_errors={"default_policy": {TD_ERROR_KEY: np.ones(3)}}
    )
    assert bool(calls) is receives
