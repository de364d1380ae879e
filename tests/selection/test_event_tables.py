"""Event tables compared with a naive list of the steps that led to events."""

import copy

import numpy as np
import pytest
import torch
from builders import Episodes, identical, make, require_same_samples, stack
from scipy.stats import chisquare

from interreplay import Mix, ReplayBuffer
from interreplay.errors import PartError
from interreplay.selection.event_tables import make_event
from replay_buffers import EventTables, Uniform


def high(rows):
    """A user-defined event that changes its input and returns zeros and ones."""
    rows.obs.sub_(1.2)
    return (rows.obs[:, 0] > 0).float().numpy()


CONDITIONS = {
    "reward > 1": lambda row: row["rewards"] > 1,
    "terminated": lambda row: row["terminated"],
    "truncated": lambda row: row["truncated"],
    high: lambda row: row["obs"][0] > 1.2,
}


def led_to(rows: list[dict], happened, history: int, capacity: int) -> set[int]:
    """Write numbers of the stored events and the `history` rows before each of them in its episode."""
    found: set[int] = set()
    for number, row in enumerate(rows):
        if not happened(row):
            continue
        found.add(number)
        at, left = number, history
        for before in range(number - 1, -1, -1):
            if not left:
                break
            if rows[before]["episode"] != rows[at]["episode"]:
                continue
            if not np.array_equal(rows[before]["next_obs"], rows[at]["obs"]) or rows[before]["truncated"]:
                break
            found.add(before)
            at, left = before, left - 1
    return {number for number in found if number >= len(rows) - capacity}


@pytest.mark.parametrize(
    ("history", "portion", "gaps"), [(0, 1, 0.2), (1, 60, 0.0), (4, 7, 0.2), (4, 60, 0.2), (200, 7, 0.0), (200, 1, 0.2)]
)
def test_tables_contain_the_steps_that_led_to_events(history, portion, gaps):
    capacity, episodes, rows = 60, Episodes(seed=2, envs=3, gaps=gaps, ends=0.05), []
    buffer = EventTables(capacity=capacity, events=list(CONDITIONS), history=history, seed=0)
    while len(rows) < 200:
        new = episodes.rows(portion)
        rows += new
        slots = buffer.add(stack(new))
        assert torch.equal(buffer.storage[slots].obs, stack(new).obs)
        for table, happened in zip(buffer.selector._tables, CONDITIONS.values(), strict=True):
            writes = buffer.storage.write_numbers(torch.from_numpy(table.members.astype(np.int64)))
            assert set(writes.tolist()) == led_to(rows, happened, history, capacity)
            assert len(table) == len(set(table.members.tolist()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shares", "default"), [([0.3, 0.1], 0.6), (None, 0.5), ([0.5, 0.5], 0.0), (np.array([0.0, 0.2]), 0.8)]
)
def test_shares_are_exact_and_rows_of_a_table_equally_likely(shares, default):
    events = {"events": ["reward > 1", "terminated"], "shares": shares, "default_share": 0.5, "history": 1}
    buffer = EventTables(capacity=200, seed=0, **events)
    buffer.add(make(200, ends=0.1))
    each = [default, *([0.25, 0.25] if shares is None else shares)]
    assert buffer.selector.current_shares(40) == pytest.approx(each)
    tables, size, counts = buffer.selector._tables, 40, np.zeros(200)
    for _ in range(500):
        sample = buffer.sample(size)
        slots = sample.slots.numpy()
        limits = np.round(np.cumsum([0, *each]) * size).astype(int)
        for table, first, last in zip(tables, limits[1:], limits[2:], strict=False):
            assert table.contains(slots[first:last]).all()
        counts += np.bincount(slots, minlength=200)
    expected = np.full(200, each[0] / 200)
    for table, share in zip(tables, each[1:], strict=True):
        expected[table.members] += share / len(table)
    assert expected[slots] == pytest.approx(sample.probabilities.numpy(), rel=1e-5)
    likely = expected > 0
    assert counts[~likely].sum() == 0
    assert chisquare(counts[likely], expected[likely] / expected.sum() * counts.sum()).pvalue > 1e-4
    assert (sample.weights == 1).all()


@pytest.mark.slow
def test_fractions_of_a_row_are_drawn_in_some_batches():
    """3 % of 10 rows are one row in some batches and none in others."""
    buffer = EventTables(capacity=200, events=["terminated"], shares=[0.03], history=0, seed=0)
    buffer.add(make(200, ends=0.1))
    table = buffer.selector._tables[0]
    from_table = [int(table.contains(buffer.sample(10).slots[-1:].numpy()).sum()) for _ in range(2_000)]
    assert np.mean(from_table) == pytest.approx(0.3 + 0.7 * len(table) / 200, abs=0.05)


def test_a_table_with_too_few_rows_contributes_none():
    buffer = EventTables(capacity=100, events=["reward > 1e9", "terminated"], shares=[0.4, 0.2], history=0, seed=0)
    rows = make(60, ends=0.0)
    terminated = torch.zeros(60, dtype=torch.bool)
    terminated[50:55] = True
    buffer.add(rows.replace(terminated=terminated, truncated=torch.zeros(60, dtype=torch.bool)))
    assert buffer.selector.current_shares(25) == pytest.approx([2 / 3, 0, 1 / 3])
    assert buffer.selector.current_shares(26) == pytest.approx([1, 0, 0]), "5 rows are fewer than .2·26"
    assert buffer.selector.statistics() == {"event_table_0_rows": 0.0, "event_table_1_rows": 5.0}
    only = EventTables(capacity=100, events=["terminated"], shares=[1.0], history=0, seed=0)
    only.add(make(60, ends=0.0))
    assert len(only.sample(20)) == 20, "all rows if no table has any"


def test_a_state_contains_tables_and_running_episodes():
    def fed(buffer: ReplayBuffer, episodes: Episodes, rounds: int) -> ReplayBuffer:
        for _ in range(rounds):
            buffer.add(episodes.transitions(3))
        return buffer

    arguments = {"events": ["reward > 1", high], "shares": [0.1, 0.1], "history": 6}
    episodes = Episodes(seed=4, envs=3, ends=0.03)
    buffer = fed(EventTables(capacity=50, seed=0, **arguments), episodes, 30)
    resumed = EventTables(capacity=50, seed=1, **arguments)
    resumed.load_state_dict(copy.deepcopy(buffer.state_dict()))
    twin = copy.deepcopy(episodes)
    fed(buffer, episodes, 10)
    fed(resumed, twin, 10)
    require_same_samples(buffer.sample(64), resumed.sample(64))
    identical(buffer.sample(8).transitions, resumed.sample(8).transitions)


def test_a_state_with_another_number_of_tables_is_rejected():
    buffer = EventTables(capacity=50, events=["reward > 1"], seed=0)
    buffer.add(make(20))
    other = EventTables(capacity=50, events=["reward > 1", "truncated"])
    with pytest.raises(ValueError, match="the state has 1 event tables; expected 2, one per event"):
        other.load_state_dict(buffer.state_dict())


def test_tails_of_abandoned_episodes_are_removed():
    buffer = EventTables(capacity=20, seed=0)
    for start in range(50):
        rows = make(2, seed=start, ends=0.0)
        buffer.add(rows.replace(episode=torch.full((2,), start)))
    assert len(buffer.selector._tails) <= 11


def test_rewards_are_compared_with_numbers():
    for given, rewards, expected in [
        ("reward > 0", [-1, 0, 2], [False, False, True]),
        ("reward>=.5", [0.4, 0.5, 1], [False, True, True]),
        ("reward < -1e1", [-11, -10, 0], [True, False, False]),
        (" reward <= 0 ", [-1, 0, 2], [True, True, False]),
    ]:
        buffer = Uniform(capacity=10)
        buffer.add(make(3).replace(rewards=torch.tensor(rewards, dtype=torch.float32)))
        assert make_event(given)(buffer.storage, torch.arange(3)).tolist() == expected, given


def test_success_is_read_from_an_extra_column():
    buffer = EventTables(capacity=10, events="success", history=0, seed=0)
    assert buffer.columns_wanted == buffer.selector.needs == {"success"}
    buffer.add(make(6).replace(extras={"success": torch.tensor([0, 0, 1, 0, 1, 0], dtype=torch.bool)}))
    assert sorted(buffer.selector._tables[0].members.tolist()) == [2, 4]
    empty = EventTables(capacity=10, events="success")
    with pytest.raises(ValueError, match="the rows lack the column success, which the replay method requires"):
        empty.add(make(3))
    assert not len(empty)
    empty.add(make(3).replace(extras={"success": torch.zeros(3)}))
    assert len(empty) == 3
    with pytest.raises(ValueError, match="EventTables requires success, which RLlib's SAC does not provide"):
        buffer.check_offers(frozenset(), "RLlib's SAC")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda rows: rows.obs > 0, r"the event .* returned shape \(2, 3\); expected bool of shape \(2,\)"),
        (lambda rows: [None] * len(rows), r"the event .* returned a list; expected bool of shape \(2,\), one per row"),
    ],
)
def test_an_invalid_event_is_rejected_before_rows_are_stored(returned, message):
    calls = []

    def later(rows):
        calls.append(rows)
        return rows.rewards > 0 if len(calls) < 3 else returned(rows)

    buffer = EventTables(capacity=10, events=[later], seed=0)
    buffer.add(make(4))
    with pytest.raises(PartError, match=message):
        buffer.add(make(2))
    assert len(buffer) == buffer.storage.written == 4
    mix = Mix({"all": Uniform(capacity=10), "events": buffer})
    with pytest.raises(PartError, match=message):
        mix.add(make(2))
    assert len(mix) == 4
    assert all(rows.discounts is not None for rows in calls)
