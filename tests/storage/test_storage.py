"""Storage compared with a list of rows: rows are read exactly as they were added."""

import itertools

import numpy as np
import pytest
import torch
from builders import HALF_CHEETAH, Episodes, identical, make, stack

from interreplay import Storage, Transitions

KINDS = {
    "plain": {},
    "interleaved": {"envs": 4},
    "gaps": {"envs": 3, "gaps": 0.3},
    "long episodes": {"ends": 0.0},
    "no ids": {"ids": False},
    "no ids, gaps": {"ids": False, "gaps": 0.3},
    "no ids, interleaved": {"ids": False, "envs": 3},
    "dict": {"obs_shape": {"observation": (3,), "desired_goal": (2,)}, "envs": 2},
    "float64": {"obs_dtype": np.float64, "action_dtype": np.float64, "envs": 2},
    "image": {"obs_shape": (2, 4, 3), "obs_dtype": np.uint8, "action_shape": (), "action_dtype": np.int64, "envs": 2},
    "2-D action": {"action_shape": (2, 3)},
    "scalar action": {"action_shape": ()},
    "scalar observation": {"obs_shape": (), "envs": 2},
    "empty observation": {"obs_shape": (0,)},  # of bandits
    "every row ends": {"ends": 1.0},
    "half cheetah": HALF_CHEETAH,
}


def without_ids(transitions: Transitions) -> Transitions:
    return transitions.replace(episode=None, discounts=None)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_read_as_they_were_added(kind):
    for seed, capacity in enumerate((1, 2, 7, 30)):
        episodes, storage = Episodes(seed=seed, **KINDS[kind]), Storage(capacity)
        kept: dict[int, dict] = {}
        for _ in range(30):
            rows = episodes.rows(int(episodes.rng.integers(1, capacity + 1)))
            slots = storage.add(stack(rows, episodes.ids))
            assert slots.dtype == torch.int64 and slots.shape == (len(rows),)
            kept.update(zip(slots.tolist(), rows, strict=True))
            found, expected = storage[torch.arange(len(storage))], stack([kept[s] for s in range(len(kept))])
            assert len(storage) == len(kept) <= capacity
            identical(without_ids(found), without_ids(expected))
            if episodes.ids:
                assert torch.equal(found.episode, expected.episode)
            check_links(storage)


def check_links(storage: Storage) -> None:
    """Assert that successors are later rows of the episode that start at next_obs, and that each tail is used once."""
    slots = torch.arange(len(storage))
    after = storage.successor(slots)
    linked, rows = slots[after >= 0], storage[slots]
    assert (storage.write_numbers(after[linked]) > storage.write_numbers(linked)).all()
    assert torch.equal(rows.episode[after[linked]], rows.episode[linked])
    assert not (rows.terminated | rows.truncated)[linked].any()
    places = (-1 - storage.column("link")[slots][after < 0]).tolist()
    assert len(set(places)) == len(places), "two rows share a tail"
    assert sorted(places + storage.chain.tails.free) == list(range(storage.chain.tails.used)), "a tail is lost"


@pytest.mark.parametrize("portion", [1, 3, 30])
@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_nothing_continues_an_ended_row(end, ids, portion):
    rows = Episodes(ends=0.0).rows(30)
    for row in rows[4::5]:
        row[end] = True
    storage = Storage(30)
    for start in range(0, 30, portion):
        storage.add(stack(rows[start : start + portion], ids))
    assert (storage.successor(torch.arange(30)) >= 0).tolist() == [i % 5 != 4 for i in range(30)]
    assert ids or len(set(storage[torch.arange(30)].episode.tolist())) == 6


def test_rows_without_ids_get_those_of_their_episodes():
    rows = Episodes(ends=0.2).rows(60)
    storage = Storage(60)
    for start in range(0, 60, 7):
        storage.add(stack(rows[start : start + 7], ids=False))
    found = storage[torch.arange(60)].episode.tolist()
    given = [row["episode"] for row in rows]
    for i, j in itertools.pairwise(range(60)):
        assert (found[i] == found[j]) == (given[i] == given[j])


def test_the_number_of_broken_links_is_restored():
    storage = Storage(30)
    storage.add(make(30, ids=False, envs=3, ends=0.0))
    other = Storage(30)
    other.load_state_dict(storage.state_dict())
    assert other.broken_links == storage.broken_links > 10
    state = storage.state_dict()
    del state["links"]["broken"]  # a state without the number
    other.load_state_dict(state)
    assert other.broken_links == 0


def test_neither_added_nor_read_rows_share_memory_with_the_storage():
    storage = Storage(20)
    rows = make(20, obs_shape={"a": (2,), "b": ()})
    storage.add(rows)
    slots = torch.arange(20).view(4, 5)
    found = storage[slots]
    expected = storage[slots]
    assert found.rewards.shape == (4, 5) and found.obs["a"].shape == (4, 5, 2) and found.obs["b"].shape == (4, 5)
    identical(found[1], storage[slots[1]])
    for column in (*found.columns().values(), *rows.columns().values()):
        column.fill_(1)
    identical(storage[slots], expected)
    for slot in (-1, 20, 10**9):
        with pytest.raises(IndexError):
            storage[torch.tensor([0, slot])]


def test_discounts_and_features():
    storage = Storage(30, gamma=0.9)
    rows = make(30, ends=0.3, obs_dtype=np.float64, action_shape=(2, 2))
    storage.add(rows)
    slots = torch.arange(30)
    assert torch.equal(storage[slots].discounts, torch.where(rows.terminated, 0.0, 0.9))
    expected = torch.cat([rows.obs.float(), rows.actions.flatten(1)], dim=1)
    assert torch.equal(storage.features(slots), expected) and expected.dtype == torch.float32


def test_features_of_goals_are_state_desired_goal_and_action():
    shapes = {"observation": (3,), "desired_goal": (2,), "achieved_goal": (2,)}
    rows, storage = make(20, obs_shape=shapes), Storage(30)
    storage.add(rows)
    expected = torch.cat([rows.obs["observation"], rows.obs["desired_goal"], rows.actions], dim=1)
    assert torch.equal(storage.features(torch.arange(20)), expected)
    fields = storage.records.fields
    first = fields.index("obs.achieved_goal")
    assert fields[first + 1 : first + 4] == ["obs.observation", "obs.desired_goal", "actions"]


def test_truncated_running_episodes_are_not_continued():
    episodes = Episodes(envs=3, ends=0.0)
    storage = Storage(50)
    storage.add(episodes.transitions(30))
    before = storage[torch.arange(30)]
    newest = {int(e): i for i, e in enumerate(before.episode.tolist())}
    storage.truncate_episodes([0, 2, 99])
    after = storage[torch.arange(30)]
    assert after.truncated.nonzero().squeeze(1).tolist() == sorted([newest[0], newest[2]])
    storage.add(episodes.transitions(20))
    assert storage.successor(torch.tensor([newest[0], newest[1], newest[2]])).tolist()[0::2] == [-1, -1]
    assert storage.successor(torch.tensor([newest[1]])).item() >= 30
    identical(storage[torch.arange(30)].replace(truncated=before.truncated), before)


OTHER_KINDS = {
    "actions has shape": lambda t: t.replace(actions=t.actions[:, :1]),
    "obs has shape": lambda t: t.replace(obs=t.obs[:, :2], next_obs=t.next_obs[:, :2]),
    "next_obs has shape": lambda t: t.replace(next_obs=t.next_obs[:, :2]),
    "expected the stored columns": lambda t: t.replace(obs={"a": t.obs}, next_obs={"a": t.next_obs}),
    "transitions have the columns": lambda t: t.replace(extras={"more": t.rewards}),
    "next_obs has the parts": lambda t: t.replace(next_obs={"a": t.next_obs}),
}


@pytest.mark.parametrize("message", OTHER_KINDS)
def test_rows_with_other_columns_are_rejected(message):
    storage, rows = Storage(20), make(5)
    storage.add(rows)
    with pytest.raises(ValueError, match=message):
        storage.add(OTHER_KINDS[message](rows))
    assert storage.written == 5
    storage.add(rows)
    assert len(storage) == 10
    with pytest.raises(ValueError, match="5 transitions do not fit into a capacity of 4"):
        Storage(4).add(rows)
    empty = Storage(20)
    with pytest.raises(ValueError, match="next_obs has shape"):
        empty.add(rows.replace(next_obs=rows.next_obs[:, :2]))
    empty.add(make(5, obs_shape=(9,)))


def test_integers_that_do_not_fit_are_rejected():
    storage, rows = Storage(20), make(5, obs_dtype=np.uint8)
    storage.add(rows)
    storage.add(rows.replace(obs=rows.obs.long(), next_obs=rows.next_obs.long()))
    identical(storage[torch.arange(5)], storage[torch.arange(5, 10)])
    with pytest.raises(ValueError, match="obs contains 300"):
        storage.add(rows.replace(obs=torch.full_like(rows.obs, 300, dtype=torch.int64)))
    with pytest.raises(ValueError, match="obs is torch.float32; stored rows are torch.uint8"):
        storage.add(make(5))


def test_narrower_and_wider_floats_become_the_stored_dtype():
    storage = Storage(20)
    storage.add(make(5))
    storage.add(make(5, seed=1, obs_dtype=np.float64, action_dtype=np.float64))
    found, given = storage[torch.arange(5, 10)], make(5, seed=1, obs_dtype=np.float64, action_dtype=np.float64)
    assert torch.equal(found.obs, given.obs.float()) and torch.equal(found.next_obs, given.next_obs.float())
    assert storage.successor(torch.arange(5, 9)).ge(0).sum() >= 2


def test_bfloat16_is_rejected_and_nothing_is_stored():
    storage = Storage(20)
    rows = make(5)
    with pytest.raises(ValueError, match="obs is of torch.bfloat16; expected a dtype that numpy supports"):
        storage.add(rows.replace(obs=rows.obs.bfloat16(), next_obs=rows.next_obs.bfloat16()))
    storage.add(rows)
    assert len(storage) == 5


def test_memory_of_a_half_cheetah_row():
    storage = Storage(20_000)
    episodes = Episodes(ends=0.0005, **HALF_CHEETAH)
    for _ in range(12):
        storage.add(episodes.transitions(2_500))
    assert len(storage) == 20_000
    assert storage.nbytes / len(storage) <= 1.25 * (4 * 24 + 2)
    storage, episodes = Storage(100), Episodes(envs=2, ends=0.2, gaps=0.2)
    for _ in range(100):
        storage.add(episodes.transitions(50))
    assert storage.chain.tails.used <= 2 * 100, "final observations are reused"
