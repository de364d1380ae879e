"""Shares are exact, a mix of one source equals the source, and errors reach the source that drew the row."""

import numpy as np
import pytest
import torch
from builders import make, require_same_samples

from interreplay import Mix
from interreplay.experience import Replay, Shares, make_source, resolve_source
from interreplay.experience.recipes import as_settings
from replay_buffers import NMER, S4RL, Uniform

NAMES = ["online", "offline", "model"]


@pytest.mark.parametrize("shares", [{"online": 0.5}, {"online": 0.1, "offline": 0.001}, {"online": 1.0}, None])
def test_counts_are_exact_over_batches_and_add_up_in_each(shares):
    divided, totals = Shares(NAMES, shares), dict.fromkeys(NAMES, 0)
    expected = divided.current
    for batch in range(1, 500):
        counts = divided.counts(37, NAMES)
        assert sum(counts.values()) == 37 and all(count > 0 for count in counts.values())
        for name, count in counts.items():
            totals[name] += count
        assert all(abs(totals[name] - 37 * batch * expected[name]) < 1 + 1e-6 for name in NAMES)


def test_the_remainder_is_divided_among_sources_without_a_share():
    for half in (0.5, np.float32(0.5)):
        assert Shares(NAMES, {"online": half}).current == {"online": 0.5, "offline": 0.25, "model": 0.25}
    assert Shares(NAMES).current == pytest.approx(dict.fromkeys(NAMES, 1 / 3))


def test_shares_move_over_the_run():
    shares = Shares(["online", "offline"], {"offline": (0.5, 0.1)})
    assert shares.counts(20, ["online", "offline"]) == {"online": 10, "offline": 10}
    shares.anneal(0.5)
    assert shares.current == pytest.approx({"online": 0.7, "offline": 0.3})
    shares.anneal(2.0)
    assert shares.counts(20, ["online", "offline"]) == {"online": 18, "offline": 2}


def test_the_share_of_an_empty_source_goes_to_the_others():
    shares = Shares(NAMES, {"online": 0.5, "offline": 0.3, "model": 0.2})
    assert shares.counts(80, ["online", "offline"]) == {"online": 50, "offline": 30}
    assert shares.counts(80, ["model"]) == {"model": 80}
    with pytest.raises(ValueError, match="no source with a share has rows"):
        shares.counts(80, [])


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"online": 0.5, "offline": 0.3, "model": 0.1}, "expected them to add up to 1"),
        ({"online": 0.7, "offline": 0.7}, "expected them to add up to 1"),
        ({"onlin": 0.5}, "there is no source 'onlin'; expected shares of online, offline, model"),
        ({"online": 1.5}, "the share of online is 1.5; expected 0 to 1"),
        ({"online": (0.5,)}, "expected 0 to 1, or"),
        ({"online": float("nan")}, "the share of online is nan"),
    ],
)
def test_invalid_shares_are_rejected(shares, message):
    with pytest.raises(ValueError, match=message):
        Shares(NAMES, shares)


def test_a_source_without_a_type_is_rejected():
    with pytest.raises(ValueError, match=r"the source \{'k': 3\} has no type; expected a replay method, such as"):
        Mix({"a": {"k": 3}})
    with pytest.raises(ValueError, match="Offline takes no argument 'wher'; did you mean where"):
        Mix({"a": {"type": "Offline", "data": "rows", "wher": "success"}})
    with pytest.raises(ValueError, match="'a' is None; expected a source, or the name of a replay method"):
        Mix({"a": None})


def mixed(**shares):
    return Mix({"a": "PER", "b": {"type": "NMER", "k": 3}}, shares or None, capacity=60, seed=3)


@pytest.mark.parametrize("kind", ["NMER", "PER", "Uniform", "Noise", "Elite"])
def test_a_mix_of_one_source_is_that_source(kind):
    alone, mix = make_source(kind, {"seed": 5}, capacity=50), Mix({"only": kind}, capacity=50, seed=5)
    for number in range(4):
        for source in (alone, mix):
            source.add(make(40, seed=number))
        for one, other in zip(alone.batches(16, 3), mix.batches(16, 3), strict=True):
            require_same_samples(one, other)
            assert (other.origins == 0).all() and (other.write_count == one.write_count).all()
            errors = torch.linspace(-1, 3, 16)
            alone.update(one, errors)
            mix.update(other, errors)


def test_a_batch_of_several_sources_can_be_changed_and_moved():
    mix = mixed()
    mix.add(make(100))
    sample = mix.sample(20)
    changed = sample.replace(transitions=sample.transitions.replace(rewards=-sample.transitions.rewards))
    assert torch.equal(changed.transitions.rewards, -sample.transitions.rewards)
    assert torch.equal(changed.slots, sample.slots) and torch.equal(changed.origins, sample.origins)
    moved = sample.to(torch.device("meta"))
    assert {moved.weights.device.type, moved.slots.device.type, moved.transitions.rewards.device.type} == {"meta"}


def test_rows_come_from_the_source_that_they_name():
    mix = mixed(a=0.25)
    mix.add(make(100))
    sample = mix.sample(40)
    assert sample.origins.bincount().tolist() == [10, 30]
    assert len(sample) == 40 and len(mix) == 120 == mix.capacity
    for number, name in enumerate("ab"):
        rows, mask = sample.select_source(number)
        stored = mix.sources[name].read(rows.slots)
        kept = torch.ones(len(rows), dtype=torch.bool) if rows.mix is None else rows.mix == 1
        assert kept.any() and torch.equal(rows.transitions.rewards[kept], stored.rewards[kept])
        assert torch.equal(sample.weights[mask], rows.weights)
    first, _ = sample.select_source(0)
    assert (first.mix == 1).all() and (first.neighbor_slots == -1).all()  # PER does not blend
    assert float(sample.probabilities[sample.origins == 0].max()) < 1 / 60  # a quarter of the batch is from PER


@pytest.mark.parametrize("part", [20, 10])
def test_errors_go_back_to_the_source_that_drew_the_row(part):
    mix = Mix({"a": "PER", "b": "PER"}, capacity=60, seed=0)
    mix.add(make(60))
    sample = mix.sample(20)
    errors = 1.0 + torch.arange(20)
    for rows, own in zip(sample.split(part), errors.split(part), strict=True):
        mix.update(rows, own)
    for number, name in enumerate("ab"):
        rows, mask = sample.select_source(number)
        expected = torch.ones(60)
        for slot, error in zip(rows.slots.tolist(), errors[mask].tolist(), strict=True):
            expected[slot] = error + 1e-6
        assert torch.allclose(mix.sources[name].selector.priorities(torch.arange(60)), expected)


def test_errors_of_rows_that_were_overwritten_meanwhile_are_passed_over():
    mix = Mix({"a": "PER", "b": "PER"}, capacity=30, seed=0)
    mix.add(make(30))
    sample = mix.sample(20)
    mix.add(make(30, seed=1))
    mix.update(sample, torch.full((20,), 9.0))
    assert all((source.selector.priorities(torch.arange(30)) == 1).all() for source in mix.sources.values())


def test_batches_are_split_by_buffers():
    mix = Mix({"x": Uniform(capacity=20, seed=1), "y": NMER(capacity=20, seed=3, k=2)}, {"x": 0.25})
    mix.add(make(20))
    sample = mix.sample(16)
    parts = list(mix.split_by_buffer(sample, torch.arange(16.0)))
    found = [(name, buffer, len(rows)) for name, buffer, rows, _ in parts]
    assert found == [("x", mix.sources["x"], 4), ("y", mix.sources["y"], 12)]
    assert torch.cat([errors for *_, errors in parts]).tolist() == list(range(16))


def test_some_views_cannot_be_mixed_with_no_views():
    mix = Mix({"a": S4RL(capacity=20, views=2), "b": Uniform(capacity=20)})
    mix.add(make(20))
    with pytest.raises(ValueError, match="only some of these batches have several views"):
        mix.sample(8)
    with pytest.raises(ValueError, match="the sources return .* views of a row; expected equal numbers"):
        mix.check({"obs": ((3,), torch.float32), "actions": ((2,), torch.float32)})


def test_a_state_continues_bit_for_bit():
    one, other = mixed(a=(0.3, 0.6)), mixed(a=(0.3, 0.6))
    for number in range(3):
        one.add(make(25, seed=number))
        one.update(one.sample(7), torch.rand(7))
    one.anneal(0.5)
    other.load_state_dict(one.state_dict())
    for _ in range(4):
        require_same_samples(one.sample(7), other.sample(7))
    with pytest.raises(ValueError, match=r"the state has the sources \['a', 'b'\]; expected \['c'\]"):
        Mix({"c": "PER"}, capacity=60).load_state_dict(one.state_dict())


def test_sources_differ_in_their_draws_and_a_seed_repeats_them():
    made = [Mix({"a": "Uniform", "b": "Uniform"}, capacity=60, seed=seed) for seed in (1, 1, 2)]
    for mix in made:
        mix.add(make(60))
    first, again, other = (mix.sample(40).slots for mix in made)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert not torch.equal(first[:20], first[20:])


def test_recipes_are_plain_values_for_configurations():
    mix = Mix({"a": "PER", "b": {"type": "NMER", "k": 3}}, {"a": 0.5})
    sources = {"a": "PER", "b": {"type": "NMER", "k": 3}}
    expected = {"type": "Mix", "sources": sources, "shares": {"a": 0.5}, "capacity": 60}
    assert as_settings(mix, {"capacity": 60}) == expected
    small = Mix(sources, capacity=60, n_step=3, gamma=0.99)
    assert as_settings(small, {}) == {"type": "Mix", "sources": sources, "shares": None, "capacity": 60, "n_step": 3}
    assert resolve_source("Mix") is Mix
    with pytest.raises(ValueError, match="Mix takes no argument 'share'; did you mean shares"):
        as_settings("Mix", {"sources": {"a": "PER"}, "share": {"a": 1}})
    with pytest.raises(ValueError, match="there is no replay buffer 'NMR'; did you mean NMER"):
        Mix({"a": "NMR"})
    with pytest.raises(ValueError, match="the mix has no sources"):
        Mix({})


def test_updates_are_due_per_row_once_enough_rows_are_stored():
    replay = Replay(Uniform(capacity=100, seed=0), 4, updates_per_step=0.5, learning_starts=10)
    due = []
    for number in range(20):
        replay.add(make(1, seed=number))
        due.append(len(list(replay.batches())))
    assert due == [0] * 10 + [1, 0] * 5  # after the tenth row, half an update is due
    assert replay.env_steps == 20 and replay.due == 0.5


@pytest.mark.parametrize("steps", [3, 6, 10, 49])
def test_an_update_is_due_after_as_many_steps_as_its_share(steps):
    replay = Replay(Uniform(capacity=100, seed=0), 4, updates_per_step=1 / steps)
    found = []
    for _ in range(4 * steps):
        replay.add(make(1))
        found.append(len(list(replay.batches())))
    assert found == ([0] * (steps - 1) + [1]) * 4


def test_replay_stops_between_draws_and_continues_with_due_updates():
    replay = Replay(Uniform(capacity=100, seed=0), 4, updates_per_step=10, batches_per_draw=4)
    replay.add(make(1))
    seen = list(replay.batches(stop=lambda: replay.due < 10))
    assert len(seen) == 4 and replay.due == 6
    again = Replay(replay.rows, 4, updates_per_step=10, batches_per_draw=4)
    again.load_state_dict(replay.state_dict())
    assert [len(batch) for batch in again.batches()] == [4] * 6 and again.env_steps == 1


def test_replay_fills_an_empty_buffer_again_before_it_learns():
    replay = Replay(Uniform(capacity=100, seed=0), 4, learning_starts=10)
    replay.load_state_dict({"env_steps": 500, "owed": 3.0})
    replay.add(make(9))
    assert not replay.ready and not list(replay.batches())
    replay.add(make(1))
    assert len(list(replay.batches())) == 4  # three due before, and one for the last row
