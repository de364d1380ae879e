"""RLlib's Parquet episodes, packed as its offline runner packs them, without its packages."""

import pickle

import gymnasium as gym
import msgpack
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from builders import identical
from kept_rows import SPACES
from offline_data import HIGH, episodes, transitions
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from interreplay.errors import UsageError
from interreplay.experience.offline_data import open_rows

pytestmark = pytest.mark.usefixtures("own_cache")


def packed(array):
    """Return an array or a number as msgpack-numpy 0.4 encodes it."""
    if isinstance(array, np.ndarray) and array.dtype.kind == "O":
        return {b"nd": True, b"type": "|O", b"kind": b"O", b"shape": array.shape, b"data": pickle.dumps(array)}
    if isinstance(array, np.ndarray):
        head = {b"nd": True, b"type": array.dtype.str, b"kind": b"", b"shape": array.shape}
        return head | {b"data": array.tobytes()}
    if isinstance(array, np.generic):
        return {b"nd": False, b"type": array.dtype.str, b"data": array.data.tobytes()}
    return array


def states(found, numpy=True):
    for episode in found:
        made = SingleAgentEpisode(
            observations=list(episode["observations"]),
            actions=list(episode["actions"] / HIGH),
            rewards=list(episode["rewards"]),
            terminated=bool(episode["terminations"][-1]),
            truncated=bool(episode["truncations"][-1]),
            len_lookback_buffer=0,
        )
        state = (made.to_numpy() if numpy else made).get_state()
        yield {name: value for name, value in state.items() if name not in ("_observation_space", "_action_space")}


def write(path, items):
    """Write a file of packed items, or of states of episodes, which are packed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    items = [item if isinstance(item, bytes) else msgpack.packb(item, default=packed) for item in items]
    pyarrow.parquet.write_table(pyarrow.table({"item": items}), path)


def read(folder):
    storage = open_rows(str(folder), SPACES)
    return storage[torch.arange(len(storage))].replace(discounts=None)


@pytest.mark.parametrize("numpy", [True, False])
def test_episodes_equal_the_recorded_ones(tmp_path, numpy):
    found = episodes()
    for number, part in enumerate((found[:3], found[3:])):
        write(tmp_path / "out" / f"run-{number}" / "0.parquet", states(part, numpy))
    identical(read(tmp_path / "out").replace(episode=None), transitions(found).replace(episode=None))


def test_episodes_that_rllib_wrote_several_times_are_read_once(tmp_path):
    """RLlib writes all previous episodes again in each iteration, and a part of an episode is not a copy of another."""
    found = list(states(episodes()))
    for iteration in range(1, 5):
        write(tmp_path / "out" / f"run-{iteration}" / "0.parquet", found[:iteration])
    identical(read(tmp_path / "out").replace(episode=None), transitions(episodes()).replace(episode=None))

    parts = list(states(episodes(2)))
    first = {**parts[0], "id_": "one", "t_started": 0, "t": 25}
    second = {**parts[1], "id_": "one", "t_started": 25, "t": 50}
    nameless = [{**part, "id_": None} for part in parts]
    write(tmp_path / "parts.parquet", (first, second, *nameless, first))
    assert len(open_rows(str(tmp_path / "parts.parquet"))) == 4 * 25


def test_fragments_of_an_episode_are_joined(tmp_path):
    """RLlib writes a fragment of each running episode after each sample, with the last observation before it."""
    found = episodes(3)
    fragments = []
    for number, state in enumerate(states(found)):
        for start, stop in ((0, 10), (10, 20), (20, 25)):
            before = min(start, 1)
            buffers = {}
            for name in ("observations", "actions", "rewards"):
                extra = 1 if name == "observations" else 0
                data = state[name]["data"][start - before : stop + extra]
                buffers[name] = {**state[name], "data": data, "lookback": before}
            ends = {name: state[name] and stop == 25 for name in ("is_terminated", "is_truncated")}
            fragments.append({**state, **buffers, **ends, "id_": str(number), "t_started": start, "t": stop})
    interleaved = [fragments[i] for i in (0, 3, 6, 4, 1, 7, 8, 5)]  # the last fragment of episode 0 is missing
    write(tmp_path / "1.parquet", interleaved[:4])
    write(tmp_path / "2.parquet", interleaved[4:])
    whole = transitions(found)
    expected = whole[torch.cat([torch.arange(20), torch.arange(25, 75)])]
    expected.truncated[19] = True
    identical(read(tmp_path), expected)
    successors = open_rows(str(tmp_path), SPACES).successor(torch.tensor([9, 18, 19, 29]))
    assert successors.tolist() == [10, 19, -1, 30]

    level = whole.rewards.reshape(3, 25).sum(1)[1:].mean()  # of the finished episodes, one is above it
    assert len(open_rows(str(tmp_path), SPACES, where=f"return>={level}")) == 25


def test_invalid_episodes_are_rejected_in_one_line(tmp_path):
    write(tmp_path / "a.parquet", [{"observations": [1]}])
    pyarrow.parquet.write_table(pyarrow.table({"obs": [1.0], "actions": [0]}), tmp_path / "b.parquet")
    write(tmp_path / "c.parquet", [b"\xc1 not packed"])
    for name, message in {
        "a": "an episode has no actions; expected RLlib's SingleAgentEpisode",
        "b": "has the columns obs, actions; expected episodes in the column item",
        "c": "c.parquet cannot be read",
    }.items():
        with pytest.raises(UsageError, match=message):
            open_rows(str(tmp_path / f"{name}.parquet"))


def test_choices_that_a_space_does_not_contain_are_rejected(tmp_path):
    """Parquet files state no spaces, so that data of another environment with equal shapes is found by its values."""
    steps = [{"turn": np.array([step, step % 2]), "at": np.ones(1, np.float32)} for step in range(4)]
    columns = {"observations": steps, "actions": [0, 1, 2], "rewards": [0.0] * 3}
    episode = SingleAgentEpisode(**columns, terminated=True, len_lookback_buffer=0)
    write(tmp_path / "e.parquet", [episode.get_state()])

    def read_as(choices, actions):
        obs = gym.spaces.Dict(turn=gym.spaces.MultiDiscrete(choices), at=gym.spaces.Box(-1, 1, (1,)))
        return open_rows(str(tmp_path / "e.parquet"), (obs, gym.spaces.Discrete(actions)))

    assert len(read_as([4, 2], 3)) == 3  # is cached
    for choices, actions, message in (
        ([4, 2], 2, "actions holds 2; expected 0 to 1"),
        ([3, 2], 3, r"next_obs\.turn holds 3; expected 0 to 2"),
        ([4, 1], 3, r"obs\.turn holds 1; expected 0 to 0"),
    ):
        with pytest.raises(UsageError, match=message):
            read_as(choices, actions)


def test_objects_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("an object was unpickled",))

    def trapped(array):
        return packed(array) | ({b"data": pickle.dumps(Trap())} if array.dtype.kind == "O" else {})

    (state,) = states(episodes(1))
    state["infos"] = {"data": np.array([None], object)}
    write(tmp_path / "d.parquet", [msgpack.packb(state, default=trapped)])
    assert len(open_rows(str(tmp_path / "d.parquet"))) == 25
