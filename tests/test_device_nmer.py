"""`DeviceNMER` on a CPU: the contract, its rows and neighbors compared with `NMER`, and rows that wait."""

import copy

import numpy as np
import pytest
import torch
from builders import HALF_CHEETAH, Episodes, identical, make, require_same_samples
from scipy.stats import chisquare, kstest

from interreplay import NonFiniteError, ReplayBuffer
from interreplay.buffer.device_nmer import UNSTORED, DeviceNMER
from interreplay.buffer.device_rows import WAITING
from interreplay.diagnostics import contract
from interreplay.neighborhood.knn_index.brute_force import nearest
from interreplay.part import Context
from interreplay.storage.ring import Storage
from replay_buffers import NMER

SUBJECT = contract.Subject(DeviceNMER)


CHECKS = [check for check in contract.CHECKS if check is not contract.shapes_and_dtypes]


@pytest.mark.parametrize("check", CHECKS, ids=contract.title)
def test_the_contract(check):
    check(SUBJECT)


FEW, MANY = {"obs_shape": (), "action_shape": ()}, {"obs_shape": (2, 3), "action_shape": (2, 2)}


@pytest.mark.parametrize("kind", [{}, FEW, MANY, {"obs_dtype": np.float64}])
def test_batches_contain_the_columns_of_updates_as_float32(kind):
    buffer = DeviceNMER(capacity=100, seed=0)
    rows = make(150, **kind)
    buffer.add(rows)
    found = buffer.sample(64).transitions
    for name in ("obs", "actions", "rewards", "next_obs"):
        column = getattr(found, name)
        assert column.dtype is torch.float32
        assert column.shape == (64, *getattr(rows, name).shape[1:])
    assert found.terminated.dtype is found.truncated.dtype is torch.bool
    assert torch.equal(found.discounts, 0.99 * (~found.terminated).float())


def filled(capacity: int = 300, rows: int = 450, **arguments) -> DeviceNMER:
    buffer = DeviceNMER(capacity=capacity, seed=0, **arguments)
    buffer.add(Episodes(envs=2, **HALF_CHEETAH).transitions(rows))
    return buffer


def test_rows_lie_between_their_anchor_and_one_of_its_nearest_neighbors():
    buffer = filled(k=4)
    sample = buffer.sample(2_000)
    blended = sample.neighbor_slots >= 0
    assert blended.float().mean() > 0.5
    near = nearest(buffer.storage, sample.slots, 4)
    assert (near == sample.neighbor_slots[:, None]).any(1)[blended].all()
    anchors = buffer.storage[sample.slots]
    partners = buffer.storage[sample.neighbor_slots.clamp(min=0)]
    expected = anchors.blend(partners, sample.mix)
    for name in ("obs", "actions", "rewards", "next_obs"):
        torch.testing.assert_close(getattr(sample.transitions, name), getattr(expected, name), msg=name)
    assert torch.equal(sample.transitions.terminated, anchors.terminated)
    assert torch.equal(sample.transitions.truncated, anchors.truncated)
    assert (sample.mix[~blended] == 1).all()
    ends = anchors.terminated | partners.terminated
    assert not (ends & blended).any() and ends.any()


def test_each_of_the_k_neighbors_is_equally_likely():
    buffer = filled(capacity=60, rows=60, k=5)
    sample = buffer.sample(10_000)
    near = nearest(buffer.storage, sample.slots, 5)
    counts = (near == sample.neighbor_slots[:, None])[sample.neighbor_slots >= 0].sum(0).numpy()
    # Rows that are not blended because of a terminated neighbor are missing.
    rows = buffer.storage[torch.arange(60)]
    near = nearest(buffer.storage, torch.arange(60), 5)
    usable = ~rows.terminated[:, None] & ~rows.terminated[near]
    expected = usable.sum(0).numpy()
    assert chisquare(counts, expected / expected.sum() * counts.sum()).pvalue > 1e-3


def test_shares_are_those_of_the_beta_distribution():
    mix = filled(alpha=0.4, k=3).sample(20_000).mix
    assert kstest(mix[mix < 1].double().numpy(), "beta", args=(0.4, 0.4)).pvalue > 1e-3


def test_the_probability_of_blending_decreases():
    buffer = filled(prob_interpolation=0.5, interp_decay=0.4)
    always = (filled().sample(8_000).neighbor_slots >= 0).float().mean()
    shares = []
    for progress in (0.0, 1.0):
        buffer.anneal(progress)
        shares.append((buffer.sample(8_000).neighbor_slots >= 0).float().mean() / always)
    assert shares == pytest.approx([0.5, 0.1], abs=0.03)


def test_new_rows_are_drawn_at_once_and_wait_to_be_blended():
    buffer = filled(capacity=2_000, rows=1_500)
    buffer.sample(8)
    new = make(4, seed=9, ends=0.0, **HALF_CHEETAH)
    buffer.add(new)
    sample = buffer.sample(20_000)
    drawn = sample.slots >= 1_500
    assert drawn.sum() > 20
    assert (sample.neighbor_slots[drawn] == -1).all() and (sample.neighbor_slots < 1_500).all()
    torch.testing.assert_close(sample.transitions.obs[drawn], new.obs[sample.slots[drawn] - 1_500])
    buffer.add(make(4, seed=10, ends=0.0, **HALF_CHEETAH))  # now more than one in 256 rows waits
    sample = buffer.sample(20_000)
    assert (sample.neighbor_slots[sample.slots >= 1_500] >= 0).float().mean() > 0.5


def test_replaced_rows_are_not_drawn_while_others_wait():
    buffer = filled(capacity=1_000, rows=1_000)
    buffer.sample(8)
    buffer.add(make(3, seed=9, **HALF_CHEETAH))
    sample = buffer.sample(20_000)
    newest = buffer.storage[torch.arange(3)]
    drawn = sample.slots < 3
    assert drawn.sum() > 20
    torch.testing.assert_close(sample.transitions.obs[drawn], newest.obs[sample.slots[drawn]])


def test_a_restored_buffer_blends_with_rows_that_waiting_ones_replace():
    buffer = filled(capacity=1_000, rows=1_000)
    buffer.sample(8)
    buffer.add(make(3, seed=9, **HALF_CHEETAH))
    restored = DeviceNMER(capacity=1_000)
    restored.load_state_dict(buffer.state_dict())
    sample = buffer.sample(20_000)
    assert ((sample.neighbor_slots >= 0) & (sample.neighbor_slots < 3)).any()  # replaced rows are still neighbors
    require_same_samples(restored.sample(20_000), sample)
    for each in (buffer, restored):
        each.add(make(20, seed=10, **HALF_CHEETAH))
    require_same_samples(restored.sample(2_000), buffer.sample(2_000))


@pytest.mark.parametrize("waiting", [0, 1, 2])
def test_truncated_episodes_are_truncated_in_batches(waiting):
    buffer = DeviceNMER(capacity=2_000, seed=0)
    rows = make(1_000 + waiting, ends=0.0)
    buffer.add(rows[:1_000])
    buffer.sample(8)
    for row in range(1_000, 1_000 + waiting):
        buffer.add(rows[row : row + 1])
    buffer.truncate_episodes([0, 7])
    sample = buffer.sample(20_000)
    newest = sample.slots == 999 + waiting
    assert newest.any() and torch.equal(sample.transitions.truncated, newest)
    assert torch.equal(buffer.storage[sample.slots].truncated, newest)


@pytest.mark.parametrize("k", [3, 5, 20])
def test_a_state_with_another_k_is_indexed_again(k):
    buffer = DeviceNMER(capacity=300, k=k, seed=0)
    buffer.load_state_dict(filled(k=4).state_dict())
    sample = buffer.sample(5_000)
    near = nearest(buffer.storage, sample.slots, k)
    assert set((near == sample.neighbor_slots[:, None]).nonzero()[:, 1].tolist()) == set(range(k))
    assert (near == sample.neighbor_slots[:, None]).any(1)[sample.neighbor_slots >= 0].all()


def test_rows_are_also_in_main_memory():
    one = DeviceNMER(capacity=500, seed=0)
    other = Storage(500)
    episodes = Episodes(envs=2)
    for size in [1] * (UNSTORED + 10) + [400, 700, WAITING + 5]:
        rows = episodes.transitions(size)
        slots = one.add(rows)
        assert len(slots) == size
        for start in range(0, size, 500):
            kept = other.add(rows[start : start + 500])
        assert len(one) == len(other)
        assert torch.equal(slots[-len(kept) :], kept)
    identical(one.storage[torch.arange(500)], other[torch.arange(500)])


def test_changing_added_arrays_does_not_change_stored_rows():
    buffer = filled()
    rows = make(1, **HALF_CHEETAH)
    given = rows.map(torch.clone)
    slots = buffer.add(given)
    given.map(torch.zero_)
    assert torch.equal(buffer.storage[slots].obs, rows.obs)


def test_a_filled_storage_can_be_drawn_from_and_moved():
    rows = Episodes().transitions(200)
    storage = Storage(300)
    storage.add(rows)
    buffer = DeviceNMER(capacity=300, seed=0)
    buffer.draw_from(storage)
    torch.testing.assert_close(buffer.sample(400).transitions.obs.mean(0), rows.obs.mean(0), rtol=0.1, atol=0.15)
    moved = []
    buffer._fill = lambda: moved.append(buffer.device)  # there is no second device here
    buffer.connect(Context(device=torch.device("cpu")))
    assert not moved
    buffer.connect(Context(device=torch.device("meta")))
    assert moved == [torch.device("meta")]


def test_a_new_generator_changes_the_draws():
    buffer, twin = filled(), filled()
    for each in (buffer, twin):
        each.rng = np.random.default_rng(5)
    require_same_samples(buffer.sample(32), twin.sample(32))
    buffer.rng = np.random.default_rng(6)
    assert not torch.equal(buffer.sample(32).slots, twin.sample(32).slots)


def test_a_state_from_another_device_has_its_own_random_numbers():
    state = filled().state_dict()
    state["device"]["rng"] = np.zeros(16, np.uint8)  # a GPU's generator
    buffer, twin = DeviceNMER(capacity=300, seed=3), DeviceNMER(capacity=300, seed=3)
    for each in (buffer, twin):
        each.load_state_dict(copy.deepcopy(state))
    require_same_samples(buffer.sample(32), twin.sample(32))


def test_rejected_rows_change_nothing():
    for count in (1, 5, WAITING + 1):
        buffer = filled()
        rows = make(count, **HALF_CHEETAH)
        rows.rewards[-1] = torch.nan
        with pytest.raises(NonFiniteError, match="rewards"):
            buffer.add(rows)
        assert len(buffer) == 300 and buffer.storage.written == 450
        require_same_samples(buffer.sample(8), filled().sample(8))
    buffer, unused = (DeviceNMER(capacity=10, seed=0) for _ in range(2))
    too_large = torch.full((25,), 1e300, dtype=torch.float64)
    for wrong, message in (
        (make(3).replace(rewards=torch.tensor([1.0, np.nan, 2.0])), "rewards holds nan"),
        (make(3).replace(extras={"behavior": torch.tensor([1.0, 2.0, np.nan])}), "extras.behavior holds nan"),
        (make(25).replace(rewards=too_large), "too large for float32"),
    ):
        with pytest.raises(ValueError, match=message):
            buffer.add(wrong)
        with pytest.raises(ValueError, match="cannot sample 4 rows from 0 stored ones"):
            buffer.sample(4)
    for each in (buffer, unused):
        each.add(make(3).replace(rewards=too_large[:3] * 0.0))
    with pytest.warns(RuntimeWarning, match="overflow"), pytest.raises(ValueError, match="too large for float32"):
        buffer.add(make(1).replace(rewards=too_large[:1]))
    assert len(buffer.add(make(3)[:0])) == 0 and len(buffer) == 3
    require_same_samples(buffer.sample(4), unused.sample(4))


def test_a_state_of_nmer_is_indexed_again_and_vice_versa():
    rows = Episodes(envs=2, **HALF_CHEETAH).transitions(450)
    buffers = [DeviceNMER(capacity=300, k=4, seed=0), NMER(capacity=300, k=4, seed=0)]
    for buffer in buffers:
        buffer.add(rows)
    for kind, state in zip((NMER, DeviceNMER), map(ReplayBuffer.state_dict, buffers), strict=True):
        loaded = kind(capacity=300, k=4, seed=1)
        loaded.load_state_dict(state)
        loaded.add(rows[:20])
        sample = loaded.sample(500)
        blended = sample.neighbor_slots >= 0
        assert blended.float().mean() > 0.5
        near = nearest(loaded.storage, sample.slots, 4)
        assert (near == sample.neighbor_slots[:, None]).any(1)[blended].float().mean() > 0.95


@pytest.mark.parametrize("count", [1, 5])
def test_rows_with_gradients_are_stored_without_them(count):
    rows = make(count)
    buffer = DeviceNMER(capacity=10, seed=0)
    for _ in range(2):
        buffer.add(rows.replace(obs=rows.obs.requires_grad_(), rewards=rows.rewards.requires_grad_()))
    assert torch.equal(buffer.storage[torch.arange(count)].obs, rows.obs)
    assert not buffer.sample(4).transitions.obs.requires_grad
