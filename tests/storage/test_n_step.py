"""n-step transitions compared with a loop over the rows of each episode."""

import numpy as np
import pytest
import torch
from builders import Episodes, Row, identical, make, stack

from interreplay import ReplayBuffer, Storage
from interreplay.storage.read_views import NStep, OneStep

GAMMA = 0.9


def continues(before: Row, after: Row) -> bool:
    over = before["terminated"] or before["truncated"]
    return before["episode"] == after["episode"] and not over and np.array_equal(before["next_obs"], after["obs"])


def naive(stored: list[Row], start: int, n: int) -> dict[str, object]:
    """Return the n-step transition that begins with row `start` of the stored rows, oldest first."""
    at, reward, factor = start, float(stored[start]["rewards"]), 1.0
    for _ in range(n - 1):
        of_episode = [j for j in range(at + 1, len(stored)) if stored[j]["episode"] == stored[at]["episode"]]
        if not of_episode or not continues(stored[at], stored[of_episode[0]]):
            break
        at, factor = of_episode[0], factor * GAMMA
        reward += factor * float(stored[at]["rewards"])
    last = stored[at]
    ended = {name: last[name] for name in ("next_obs", "terminated", "truncated")}
    return ended | {"rewards": reward, "discounts": 0.0 if last["terminated"] else factor * GAMMA}


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"envs": 3},
        {"envs": 3, "gaps": 0.3},
        {"ends": 0.0, "envs": 2},
        {"obs_dtype": np.uint8},
        {"ids": False},
        {"ids": False, "gaps": 0.3},
    ],
)
@pytest.mark.parametrize("n", [2, 7])
@pytest.mark.parametrize("capacity", [5, 40])
def test_rows_equal_those_of_a_naive_loop(kind, n, capacity):
    episodes, storage, view = Episodes(seed=n, **kind), Storage(capacity), NStep(n, GAMMA)
    rows: list[Row] = []
    for _ in range(25):
        rows += episodes.rows(int(episodes.rng.integers(1, capacity + 1)))
        storage.add(stack(rows[storage.written :], episodes.ids))
        stored = rows[-len(storage) :]
        slots = torch.arange(storage.written - len(storage), storage.written) % capacity
        found = view.read(storage, slots)
        for i in range(len(stored)):
            expected = naive(stored, i, n)
            assert np.array_equal(found.next_obs[i].numpy(), expected["next_obs"])
            ends = (bool(found.terminated[i]), bool(found.truncated[i]))
            assert ends == (expected["terminated"], expected["truncated"])
            assert float(found.rewards[i]) == pytest.approx(expected["rewards"], abs=1e-5)
            assert float(found.discounts[i]) == pytest.approx(expected["discounts"], abs=1e-6)
            assert np.array_equal(found.obs[i].numpy(), stored[i]["obs"])
            assert np.array_equal(found.actions[i].numpy(), stored[i]["actions"])


def test_a_view_can_change_between_draws():
    buffer, plain = ReplayBuffer(50, gamma=GAMMA, seed=0), ReplayBuffer(50, n_step=4, gamma=GAMMA, seed=0)
    for one in (buffer, plain):
        one.add(make(50, ends=0.1))
    before = buffer.storage[torch.arange(50)]
    buffer.use_view(NStep(4, GAMMA))
    identical(buffer.sample(64).transitions, plain.sample(64).transitions)
    buffer.use_view(OneStep(GAMMA))
    sample = buffer.sample(64)
    identical(sample.transitions, buffer.storage[sample.slots].replace(discounts=sample.transitions.discounts))
    identical(buffer.storage[torch.arange(50)], before)


def test_a_row_records_its_number_of_steps_and_whether_it_is_final():
    rows = Episodes(ends=0.0).rows(6)
    rows[2]["truncated"] = True
    for row in rows[3:]:
        row["episode"] = 1
    storage, slots = Storage(10), torch.arange(6)
    storage.add(stack(rows))
    assert NStep(3).spans(storage, slots).tolist() == [3, 2, 1, 3, 2, 1]
    assert NStep(3).mature(storage, slots).tolist() == [True, True, True, True, False, False]
    assert OneStep().spans(storage, slots).tolist() == [1] * 6 and OneStep().mature(storage, slots).all()


def test_a_range_of_n_draws_one_n_per_batch_with_both_ends_and_resumes():
    episodes = Episodes(seed=0, ends=0.0)
    buffer = ReplayBuffer(200, n_step=(2, 4), gamma=GAMMA, seed=1)
    buffer.add(stack(episodes.rows(200)))
    inner = torch.arange(190)
    seen = set()
    for _ in range(40):
        for sample in buffer.batches(32, 2):
            n = buffer.view.n_step
            seen.add(n)
            rows = NStep(n, GAMMA).read(buffer.storage, sample.slots)
            assert torch.equal(sample.transitions.rewards, rows.rewards)
            assert torch.equal(sample.transitions.discounts, rows.discounts)
    assert seen == {2, 3, 4}
    assert set(buffer.view.spans(buffer.storage, inner).tolist()) == {buffer.view.n_step}
    state = buffer.state_dict()
    other = ReplayBuffer(200, n_step=(2, 4), gamma=GAMMA)
    other.load_state_dict(state)
    for _ in range(5):
        identical(buffer.sample(16).transitions, other.sample(16).transitions)
        assert buffer.view == other.view


def test_a_range_of_n_replaces_a_fixed_n():
    fixed = ReplayBuffer(50, n_step=3, gamma=GAMMA, seed=1)
    fixed.add(stack(Episodes(seed=0).rows(50)))
    ranged = ReplayBuffer(50, n_step=(2, 2), gamma=GAMMA)
    ranged.load_state_dict(fixed.state_dict())
    sample = ranged.sample(16)
    identical(sample.transitions, NStep(2, GAMMA).read(fixed.storage, sample.slots))
