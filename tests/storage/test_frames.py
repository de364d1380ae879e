"""Stacks of frames compared with whole stacks: rows are read as they were added, and frames are released."""

import numpy as np
import pytest
import torch
from builders import identical, stack

from interreplay import Storage
from interreplay.diagnostics.memory_estimate import estimate
from interreplay.environments.lookup import find_environment
from interreplay.storage.frame_stacks import are_stacks
from interreplay.storage.read_views import NStep
from replay_buffers import Uniform

SHAPE = (5, 4)


class Stacked:
    """Environments in turn whose observations are the last k frames, the first of an episode repeated."""

    def __init__(self, k=3, envs=2, seed=0, ends=0.15, ids=True, pictures=None):
        self.pictures = pictures
        self.rng = np.random.default_rng(seed)
        self.k = k
        self.ends = ends
        self.ids = ids
        self.next_id = envs
        self.running = [(env, np.stack([self.frame()] * k)) for env in range(envs)]

    def frame(self):
        if self.pictures:  # from few pictures, so that some are repeated, also consecutively
            return np.full(SHAPE, self.rng.integers(self.pictures), np.uint8)
        return self.rng.integers(0, 256, SHAPE).astype(np.uint8)

    def row(self):
        env = int(self.rng.integers(len(self.running)))
        episode, obs = self.running[env]
        following = np.concatenate([obs[1:], self.frame()[None]])
        terminated, truncated = bool(self.rng.random() < self.ends), bool(self.rng.random() < self.ends)
        row = {
            "obs": obs,
            "actions": np.float32([0.5]),
            "rewards": np.float32(self.rng.normal()),
            "next_obs": following,
            "terminated": terminated,
            "truncated": truncated,
            "episode": episode,
        }
        if terminated or truncated:
            episode, self.next_id = self.next_id, self.next_id + 1
            following = np.stack([self.frame()] * self.k)
        self.running[env] = episode, following
        return row


def without_ids(rows):
    return rows.replace(discounts=None, episode=None)


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("pictures", [None, 3])
@pytest.mark.parametrize(("k", "envs", "capacity"), [(2, 1, 7), (3, 2, 20), (4, 3, 64), (4, 2, 1)])
def test_rows_are_read_as_they_were_added(k, envs, capacity, ids, pictures):
    episodes, storage, kept = Stacked(k, envs, pictures=pictures), Storage(capacity), {}
    for turn in range(40):
        rows = [episodes.row() for _ in range(int(episodes.rng.integers(1, min(capacity, 9) + 1)))]
        kept.update(zip(storage.add(stack(rows, ids)).tolist(), rows, strict=True))
        expected = stack([kept[slot] for slot in range(len(kept))])
        identical(without_ids(storage[torch.arange(len(storage))]), without_ids(expected))
        assert storage.columns["obs"] == ((k, *SHAPE), torch.uint8)
        assert held(storage)[0] >= held(storage)[1]
        if turn == 20:  # continue from a state
            again = Storage(capacity)
            again.load_state_dict(storage.state_dict())
            storage = again


def held(storage):
    """Return the frames in use, and the frames of stored rows and running episodes."""
    frames = storage._stacks.frames[""]
    rows = storage[torch.arange(len(storage))]
    images = {image.tobytes() for name in ("obs", "next_obs") for s in getattr(rows, name).numpy() for image in s}
    images |= {frames._pixels[n].numpy().tobytes() for _, _, ids in frames._running.values() for n in ids}
    return sum(holders > 0 for holders in frames._holders), len(images)


def test_every_frame_is_stored_once_and_released():
    episodes, storage = Stacked(4, 3), Storage(50)
    for _ in range(60):
        storage.add(stack([episodes.row() for _ in range(7)]))
    used, needed = held(storage)
    assert used == needed
    frames = storage._stacks.frames[""]
    assert frames._top < 50 + 100  # numbers are reused
    rows = storage[torch.arange(50)]
    view = NStep(3)
    last = storage.successor(storage.successor(torch.arange(50)).clamp(min=0))
    for slot in range(50):
        if int(view.spans(storage, torch.tensor([slot]))) == 3:
            assert torch.equal(view.read(storage, torch.tensor([slot])).next_obs[0], rows.next_obs[last[slot]])


def test_a_truncated_episode_releases_its_frames():
    episodes, storage = Stacked(3, 1, ends=0.0), Storage(5)
    storage.add(stack([episodes.row() for _ in range(5)]))
    storage.truncate_episodes([0])
    assert not storage._stacks.frames[""]._running
    used, needed = held(storage)
    assert used == needed


def test_a_game_that_continues_after_a_done_row_shares_frames():
    """A lost life ends the episode for the learner; its frames are released with the row."""
    episodes, storage = Stacked(4, 1, ends=0.0), Storage(30)
    rows = [episodes.row() for _ in range(30)]
    for row in rows[4::5]:
        row["terminated"] = True
    for begin in range(0, 30, 3):
        storage.add(stack(rows[begin : begin + 3]))
    frames = storage._stacks.frames[""]
    assert frames._top == 31, "one frame per row, and one that all began with"
    identical(without_ids(storage[torch.arange(30)]), without_ids(stack(rows)))
    again = Storage(30)
    again.load_state_dict(storage.state_dict())
    rows += [episodes.row() for _ in range(7)]
    for one in (storage, again):  # the last row was done: the bytes of its stack are read again
        one.add(stack(rows[30:]))
        assert one._stacks.frames[""]._top == 31 + 7, "rows that make room let go of their frames afterwards"
        identical(without_ids(one[torch.arange(30)]), without_ids(stack(rows[30:] + rows[7:30])))
        assert held(one)[0] == held(one)[1] == 30 + 4


def test_other_images_are_stored_as_they_are():
    episodes = Stacked(3, 1)
    rows = [episodes.row() for _ in range(3)]
    for row in rows:
        row["obs"] = row["obs"][::-1].copy()
    storage = Storage(10)
    storage.add(stack(rows))
    assert not storage._stacks.frames
    # Rows without shared frames are read from a storage that began with stacks.
    odd, kept = Storage(10), [Stacked(3, 1).row(), *rows]
    odd.add(stack(kept[:1]))
    odd.add(stack(kept[1:]))
    identical(without_ids(odd[torch.arange(4)]), without_ids(stack(kept)))


def test_an_image_of_one_color_is_not_a_stack():
    """Its rows of pixels repeat like frames of a stack."""
    black = torch.zeros(3, 24, 24, 3, dtype=torch.uint8)
    assert not are_stacks(black, black)
    assert are_stacks(black.movedim(-1, 1), black.movedim(-1, 1)), "ambiguous, but read as it was added"


def test_the_memory_estimate_counts_frames_once():
    env = find_environment("tests.rllib.spaces_envs:StackedLine-v0")
    assert env.stacks == ("",) and env.observation_space.shape == (3, 24, 24)
    buffer = Uniform(capacity=1000)
    spaces = (env.observation_space, env.action_space)
    assert estimate(*spaces, buffer, env.stacks) == pytest.approx(1000 * 24 * 24, rel=0.1)
    assert estimate(*spaces, buffer) == pytest.approx(3000 * 24 * 24, rel=0.1)
    assert find_environment("tests.rllib.spaces_envs:ImageAndVectorLine-v0").stacks == ()
