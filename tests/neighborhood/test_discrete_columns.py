"""Rows with discrete columns: neighbors with equal values by brute force, and no blends of other rows."""

import numpy as np
import pytest
import torch

import replay_buffers
from interreplay import Transitions
from interreplay.neighborhood import KNN, ClusterCenter
from interreplay.neighborhood.discrete_columns import DiscreteColumns
from interreplay.neighborhood.knn_index.brute_force import nearest
from interreplay.storage.ring import Storage
from interreplay.storage.state_copies import copy_arrays

BLENDING = ["NMER", "NaiveMixup", "ContinuousTransition", "KNNOutcome", "BIER"]


def rows(n: int, seed: int = 0, *, actions: str = "box", far: float = 1.0, choices: int = 3) -> Transitions:
    """Return rows of a Dict observation with Box, Discrete and MultiBinary parts, in episodes of 20 steps."""
    rng = np.random.default_rng(seed)
    walk = rng.normal(size=(n + 1, 3)).astype(np.float32) * far
    mode = rng.choice(choices, n + 1, p=np.arange(choices, 0, -1) / (choices * (choices + 1) / 2))
    flags = (rng.random((n + 1, 2)) < 0.2).astype(np.int8)
    obs = {"arm": walk, "mode": mode.astype(np.int64), "flags": flags}
    acted = rng.uniform(-1, 1, (n, 2)).astype(np.float32) if actions == "box" else rng.integers(0, 2, n)
    return Transitions(
        obs={name: part[:-1] for name, part in obs.items()},
        actions=acted,
        rewards=rng.normal(size=n).astype(np.float32),
        next_obs={name: part[1:] for name, part in obs.items()},
        terminated=np.arange(n) % 40 == 39,
        truncated=np.arange(n) % 40 == 19,
    )


def discrete_values(batch: Transitions, *, after: bool = True) -> np.ndarray:
    """Return the discrete values of rows ``(n, c)``, computed one by one."""
    observations = [batch.obs, batch.next_obs] if after else [batch.obs]
    parts = [obs[name].numpy().reshape(len(batch), -1) for obs in observations for name in ("mode", "flags")]
    if not batch.actions.is_floating_point():
        parts.append(batch.actions.numpy().reshape(len(batch), -1))
    return np.concatenate(parts, 1)


def without_and_with_one_value(given: Transitions) -> dict[str, Transitions]:
    """Return rows of numbers, alone and with a discrete column that is constant."""
    n = len(given)
    same = {"mode": torch.zeros(n, dtype=torch.int64), "flags": torch.zeros(n, 2, dtype=torch.int8)}
    alone = given.replace(obs={"arm": given.obs["arm"]}, next_obs={"arm": given.next_obs["arm"]})
    return {"alone": alone, "constant": given.replace(obs={**given.obs, **same}, next_obs={**given.next_obs, **same})}


def by_brute_force(storage: Storage, slot: int, k: int) -> set[int]:
    """Return the k nearest rows with equal discrete values, in z / std(z), computed one by one in float64."""
    stored = storage[torch.arange(len(storage))]
    z = storage.features(torch.arange(len(storage))).double().numpy()
    std = z.std(0)
    z = z[:, std > 1e-9] / std[std > 1e-9]
    choices = discrete_values(stored, after=False)
    fitting = [i for i in range(len(storage)) if i != slot and (choices[i] == choices[slot]).all()]
    return set(sorted(fitting, key=lambda i: float(((z[i] - z[slot]) ** 2).sum()))[:k])


@pytest.mark.slow
@pytest.mark.parametrize(("actions", "far"), [("box", 1.0), ("discrete", 30.0)])
def test_neighbors_equal_those_of_brute_force(actions, far):
    storage, knn = Storage(700), KNN(k=4, draw=None)
    given = rows(1_000, actions=actions, far=far)  # the ring is full from the 700th on
    for start in range(0, 1_000, 10):
        batch = given[start : start + 10]
        if storage.written + 10 > 700:
            knn.evict(storage, storage.next_replaced(10))
        knn.observe(storage, storage.add(batch))
        knn.neighbor_slots(storage, torch.arange(min(3, len(storage))), np.random.default_rng(0))
    slots = torch.arange(0, 700, 5)
    found = knn.neighbor_slots(storage, slots, np.random.default_rng(0))
    right = total = 0
    for slot, near in zip(slots.tolist(), found.tolist(), strict=True):
        required, got = by_brute_force(storage, slot, 4), {one for one in near if one >= 0}
        assert len(got) == len(required)
        right, total = right + len(got & required), total + len(required)
    assert total > 400 and right / total > 0.99
    exact = nearest(storage, slots, 4, DiscreteColumns(storage))
    required = [by_brute_force(storage, slot, 4) for slot in slots.tolist()]
    assert [{one for one in near if one >= 0} for near in exact.tolist()] == required


def test_values_of_few_rows():
    storage, knn = Storage(400), KNN(k=10)
    given = rows(400)
    mode = torch.zeros(400, dtype=torch.int64)
    mode[[5, 77, 300]], mode[9] = 1, 2
    nothing = torch.zeros(400, 2, dtype=torch.int8)
    knn.observe(storage, storage.add(given.replace(obs={**given.obs, "mode": mode, "flags": nothing})))
    drawn = [knn.neighbor_slots(storage, torch.tensor([5, 9]), np.random.default_rng(seed)) for seed in range(60)]
    assert {int(found[0]) for found in drawn} == {77, 300} and {int(found[1]) for found in drawn} == {-1}


@pytest.mark.slow
def test_composite_kernels_ignore_discrete_actions():
    buffer = replay_buffers.BIER(capacity=300, seed=0, composite=True)
    buffer.add(rows(300, actions="discrete", choices=2))
    sample = buffer.sample(64)
    assert (sample.mix < 1).any() and torch.isfinite(sample.transitions.rewards).all()


@pytest.mark.slow
@pytest.mark.parametrize("actions", ["box", "discrete"])
@pytest.mark.parametrize("name", BLENDING)
def test_rows_with_other_values_are_not_blended(name, actions):
    buffer = getattr(replay_buffers, name)(capacity=500, seed=0)
    buffer.add(rows(900, actions=actions, choices=2))
    blended = 0
    for _ in range(20):
        sample = buffer.sample(128)
        mixed = sample.neighbor_slots >= 0
        anchors, partners = buffer.storage[sample.slots[mixed]], buffer.storage[sample.neighbor_slots[mixed]]
        after = name != "KNNOutcome"  # a row gets the outcome of its neighbor
        assert np.array_equal(discrete_values(anchors, after=after), discrete_values(partners, after=after))
        made = sample.transitions[mixed]
        assert np.array_equal(discrete_values(made, after=after), discrete_values(anchors, after=after))
        assert not torch.equal(made.obs["arm"], anchors.obs["arm"]) or name == "KNNOutcome" or not len(made)
        outcomes = buffer.storage[sample.neighbor_slots[mixed]].next_obs
        assert all(torch.equal(made.next_obs[part], outcomes[part]) for part in ("mode", "flags"))
        blended += int(mixed.sum())
        kept = sample.transitions[~mixed]
        assert torch.equal(kept.obs["arm"], buffer.storage[sample.slots[~mixed]].obs["arm"])
    assert blended > 20


def test_a_restored_state_resumes_bit_exactly():
    one, other = (replay_buffers.NMER(capacity=300, seed=seed) for seed in (0, 1))
    one.add(rows(400))
    one.sample(32)
    other.load_state_dict(copy_arrays(one.state_dict()))
    for buffer in (one, other):
        buffer.add(rows(50, seed=7))
    first, second = one.sample(128), other.sample(128)
    assert torch.equal(first.slots, second.slots) and torch.equal(first.neighbor_slots, second.neighbor_slots)
    assert torch.equal(first.transitions.obs["arm"], second.transitions.obs["arm"])


def test_gaussian_processes_ignore_discrete_columns():
    """If all rows have equal discrete values, outcomes equal those of the numbers alone."""
    given, made = rows(300), {}
    for name, stored in without_and_with_one_value(given).items():
        buffer = replay_buffers.BIER(capacity=300, seed=0, precision="float64")
        buffer.add(stored)
        made[name] = buffer.sample(128)
    one, other = made["alone"], made["constant"]
    assert torch.equal(one.slots, other.slots) and (one.mix < 1).sum() > 60
    same_partner = one.neighbor_slots == other.neighbor_slots
    assert same_partner.float().mean() > 0.95  # lists of neighbors have few errors
    mine = one.transitions[same_partner]
    theirs = other.transitions[same_partner]
    torch.testing.assert_close(mine.rewards, theirs.rewards, rtol=0, atol=1e-4)
    torch.testing.assert_close(mine.next_obs["arm"], theirs.next_obs["arm"], rtol=0, atol=1e-4)


def lcer(seed=0, **more):
    return replay_buffers.LCER(capacity=400, n_clusters=8, refresh_every=50, seed=seed, **more)


@pytest.mark.slow
@pytest.mark.parametrize(("actions", "n_step"), [("discrete", 1), ("box", 3)])
def test_a_mean_is_that_of_members_with_equal_values(actions, n_step):
    """Rows are added and overwritten, and clusters move; each mean is compared with a mean over single rows."""
    buffer, given = lcer(n_step=n_step), rows(700, actions=actions, choices=2)
    partner, rng, lone = ClusterCenter(8, 50, noise=0.0), np.random.default_rng(0), 0
    buffer.neighborhood = partner
    partner.use_view(buffer.view)
    for start in range(0, 700, 10):
        buffer.add(given[start : start + 10])
        slots = torch.arange(len(buffer))
        gathered = partner.gather(buffer.storage, slots, rng)
        if start % 150:
            continue
        stored = buffer.view.read(buffer.storage, slots)
        clusters, choices = partner.clustering.members.cluster[: len(buffer)], discrete_values(stored)
        known = buffer.view.mature(buffer.storage, slots).numpy()
        for slot in range(len(buffer)):
            same = np.flatnonzero(known & (clusters == clusters[slot]) & (choices == choices[slot]).all(1))
            if len(same) < 2:
                assert gathered.slots[slot, 0] == -1
                lone += 1
                continue
            assert gathered.slots[slot, 0] == -2
            mean, members = gathered.rows[slot : slot + 1], stored[torch.from_numpy(same)]
            for name in ("obs", "next_obs"):
                got, required = getattr(mean, name), getattr(members, name)
                torch.testing.assert_close(got["arm"][0, 0], required["arm"].mean(0), rtol=1e-4, atol=1e-4)
                assert torch.equal(got["mode"][0, 0], required["mode"][0])
                assert torch.equal(got["flags"][0, 0], required["flags"][0])
            torch.testing.assert_close(mean.rewards[0, 0], members.rewards.mean(), rtol=1e-4, atol=1e-4)
            acted = members.actions.mean(0) if actions == "box" else members.actions[0]
            torch.testing.assert_close(mean.actions[0, 0], acted, rtol=1e-4, atol=1e-4)
    assert lone > 20


@pytest.mark.parametrize("actions", ["box", "discrete"])
@pytest.mark.parametrize("name", ["Noise", "S4RL"])
def test_perturbations_do_not_change_discrete_columns(name, actions):
    buffer = getattr(replay_buffers, name)(capacity=300, seed=0)
    buffer.add(rows(300, actions=actions))
    sample = buffer.sample(64)
    stored, made = buffer.storage[sample.slots], sample.transitions
    assert np.array_equal(discrete_values(made), discrete_values(stored))
    assert not torch.equal(made.obs["arm"], stored.obs["arm"])
    assert torch.equal(made.actions, stored.actions) == (name == "S4RL" or actions == "discrete")


def test_views_of_discrete_columns_are_rejected():
    with pytest.raises(ValueError, match="views is 2; expected 1, because obs.mode is torch.int64"):
        replay_buffers.S4RL(capacity=50, views=2).add(rows(40))


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
@pytest.mark.parametrize("method", BLENDING)
def test_methods_that_blend_accept_unsigned_integers(method, dtype):
    """Batches equal those of int64 columns. PyTorch lacks most operations of these dtypes."""
    given = rows(80)
    unsigned = []
    for obs in (given.obs, given.next_obs):
        unsigned.append({**obs, "mode": torch.from_numpy(obs["mode"].numpy().astype(dtype))})
    batches = []
    for rows_of_dtype in (given, given.replace(obs=unsigned[0], next_obs=unsigned[1])):
        buffer = getattr(replay_buffers, method)(capacity=60, seed=0)
        buffer.add(rows_of_dtype[:40])
        buffer.add(rows_of_dtype[40:])
        batches.append(buffer.sample(32).transitions)
    expected, found = (batch.columns() for batch in batches)
    assert found["obs.mode"].numpy().dtype == dtype
    for name in expected:
        assert np.array_equal(found[name].numpy(), expected[name].numpy()), name
