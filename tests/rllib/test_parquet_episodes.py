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
    env = gym.make("Pendulum-v1")
    for episode in found:
        made = SingleAgentEpisode(
            observations=list(episode["observations"]),
            actions=list(episode["actions"] / HIGH),
            rewards=list(episode["rewards"]),
            terminated=bool(episode["terminations"][-1]),
            truncated=bool(episode["truncations"][-1]),
            observation_space=env.observation_space,
            action_space=env.action_space,
            len_lookback_buffer=0,
        )
        state = (made.to_numpy() if numpy else made).get_state()
        yield {name: value for name, value in state.items() if name not in ("_observation_space", "_action_space")}


def write(path, items):
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table({"item": items}), path)


@pytest.mark.parametrize("numpy", [True, False])
def test_episodes_equal_the_recorded_ones(tmp_path, numpy):
    found = episodes()
    for number, part in enumerate((found[:3], found[3:])):
        items = [msgpack.packb(state, default=packed) for state in states(part, numpy)]
        write(tmp_path / "out" / f"run-{number}" / "0.parquet", items)
    env = gym.make("Pendulum-v1")
    storage = open_rows(str(tmp_path / "out"), (env.observation_space, env.action_space))
    rows = storage[torch.arange(len(storage))].replace(episode=None, discounts=None)
    identical(rows, transitions(found).replace(episode=None))


def test_episodes_that_rllib_wrote_several_times_are_read_once(tmp_path):
    """RLlib writes all previous episodes again in each iteration, and a part of an episode is not a copy of another."""
    items = [msgpack.packb(state, default=packed) for state in states(episodes())]
    for iteration in range(1, 5):
        write(tmp_path / "out" / f"run-{iteration}" / "0.parquet", items[:iteration])
    env = gym.make("Pendulum-v1")
    storage = open_rows(str(tmp_path / "out"), (env.observation_space, env.action_space))
    rows = storage[torch.arange(len(storage))].replace(episode=None, discounts=None)
    identical(rows, transitions(episodes()).replace(episode=None))

    parts = list(states(episodes(2)))
    first = {**parts[0], "id_": "one", "t_started": 0, "t": 25}
    second = {**parts[1], "id_": "one", "t_started": 25, "t": 50}
    nameless = [{**part, "id_": None} for part in parts]
    items = [msgpack.packb(state, default=packed) for state in (first, second, *nameless, first)]
    write(tmp_path / "parts.parquet", items)
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
    items = [msgpack.packb(fragment, default=packed) for fragment in interleaved]
    write(tmp_path / "1.parquet", items[:4])
    write(tmp_path / "2.parquet", items[4:])
    env = gym.make("Pendulum-v1")
    storage = open_rows(str(tmp_path), (env.observation_space, env.action_space))
    rows = storage[torch.arange(len(storage))].replace(discounts=None)
    whole = transitions(found)
    expected = whole[torch.cat([torch.arange(20), torch.arange(25, 75)])]
    expected.truncated[19] = True
    identical(rows, expected)
    assert storage.successor(torch.tensor([9, 18, 19, 29])).tolist() == [10, 19, -1, 30]

    level = whole.rewards.reshape(3, 25).sum(1)[1:].mean()  # of the finished episodes, one is above it
    filtered = open_rows(str(tmp_path), (env.observation_space, env.action_space), where=f"return>={level}")
    assert len(filtered) == 25


def test_invalid_episodes_are_rejected_in_one_line(tmp_path):
    write(tmp_path / "a.parquet", [msgpack.packb({"observations": [1]})])
    with pytest.raises(UsageError, match="an episode has no actions; expected RLlib's SingleAgentEpisode"):
        open_rows(str(tmp_path / "a.parquet"))
    pyarrow.parquet.write_table(pyarrow.table({"obs": [1.0], "actions": [0]}), tmp_path / "b.parquet")
    with pytest.raises(UsageError, match="has the columns obs, actions; expected episodes in the column item"):
        open_rows(str(tmp_path / "b.parquet"))
    write(tmp_path / "c.parquet", [b"\xc1 not packed"])
    with pytest.raises(UsageError, match="c.parquet cannot be read"):
        open_rows(str(tmp_path / "c.parquet"))


@pytest.mark.parametrize(
    ("choices", "actions", "message"),
    [
        ([4, 2], 3, None),
        ([4, 2], 2, "actions holds 2; expected 0 to 1"),
        ([3, 2], 3, r"next_obs\.turn holds 3; expected 0 to 2"),
        ([4, 1], 3, r"obs\.turn holds 1; expected 0 to 0"),
    ],
)
def test_choices_that_a_space_does_not_contain_are_rejected(tmp_path, choices, actions, message):
    """Parquet files state no spaces, so that data of another environment with equal shapes is found by its values."""
    steps = [{"turn": np.array([step, step % 2]), "at": np.ones(1, np.float32)} for step in range(4)]
    episode = SingleAgentEpisode(
        observations=steps, actions=[0, 1, 2], rewards=[0.0, 0.0, 0.0], terminated=True, len_lookback_buffer=0
    )
    write(tmp_path / "e.parquet", [msgpack.packb(episode.get_state(), default=packed)])
    whole = gym.spaces.Dict(turn=gym.spaces.MultiDiscrete([4, 2]), at=gym.spaces.Box(-1, 1, (1,)))
    assert len(open_rows(str(tmp_path / "e.parquet"), (whole, gym.spaces.Discrete(3)))) == 3  # is cached
    spaces = gym.spaces.Dict(turn=gym.spaces.MultiDiscrete(choices), at=whole["at"]), gym.spaces.Discrete(actions)
    if message is None:
        assert len(open_rows(str(tmp_path / "e.parquet"), spaces)) == 3
    else:
        with pytest.raises(UsageError, match=message):
            open_rows(str(tmp_path / "e.parquet"), spaces)


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
