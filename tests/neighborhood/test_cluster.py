"""Clusters compared with a recomputation from the stored rows, and LCER's partners with their definition."""

import numpy as np
import pytest
import torch
from builders import KINDS, Episodes, feed, identical, make, row_vectors, rows_with, stack
from scipy.cluster.vq import kmeans2
from scipy.stats import chisquare, kstest

from interreplay import ReplayBuffer, Storage, Transitions
from interreplay.neighborhood import NO_NEIGHBOR, SYNTHETIC, ClusterCenter, ClusterMember
from interreplay.neighborhood.clustering import as_transitions, lead
from interreplay.storage.read_views import NStep, OneStep, ReadView
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Uniform as UniformMix
from replay_buffers import LCER

FED = {"interleaved": {"envs": 3}, "gaps": {"envs": 2, "gaps": 0.2}} | KINDS

DISCRETE = {"action_shape": (), "action_dtype": np.int64}


def stored(storage: Storage, view: ReadView = OneStep()) -> Transitions:  # noqa: B008
    return view.read(storage, torch.arange(len(storage)))


def fed(part, capacity: int, portions: list[int], seed: int = 0, shift: float = 0.0, **kind):
    """Feed rows to a storage and a part in portions; yield both after each portion."""
    storage, episodes = Storage(capacity), Episodes(seed=seed, **kind)
    for portion in portions:
        rows = episodes.transitions(portion)
        if shift:
            rows = rows.replace(obs=rows.obs + shift, next_obs=rows.next_obs + shift)
        feed(part, storage, rows)
        yield storage, part.clustering


def check_lists(storage: Storage, clustering) -> None:
    """Assert that each stored row is in the list of its cluster once, and that lists have no other rows."""
    cluster, members = clustering.members.cluster, clustering.members
    n = len(storage)
    assert (cluster[:n] >= 0).all() and (cluster[n:] == -1).all()
    for number in range(len(members.size)):
        assert sorted(members.get_members(np.array([number]))) == np.flatnonzero(cluster == number).tolist()


def check_moments(storage: Storage, clustering, rtol: float = 1e-4) -> None:
    vectors = row_vectors(stored(storage))
    cluster = clustering.members.cluster[: len(storage)]
    sums = clustering.moments
    for number in range(len(clustering.centers)):
        mine = vectors[cluster == number]
        assert sums.counts[number] == len(mine)
        if len(mine):
            mean, std = sums.mean_and_std(np.array([number]))
            np.testing.assert_allclose(mean[0], mine.mean(0), atol=1e-5, rtol=1e-6)
            np.testing.assert_allclose(std[0], mine.std(0), atol=1e-5, rtol=rtol)


PORTIONS = {"by one": [1] * 330, "by seven": [7] * 50, "more at once than is usual": [30, 90, 150, 11, 200, 200, 3]}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FED)
def test_means_and_deviations_are_those_of_the_stored_rows(kind):
    names = PORTIONS if kind == "interleaved" else ["by seven"]
    for portions in map(PORTIONS.get, names):
        part = ClusterCenter(n_clusters=12, refresh_every=25)
        for step, (storage, clustering) in enumerate(fed(part, 200, portions, **FED[kind])):
            if step % max(1, len(portions) // 8) == 0:
                check_lists(storage, clustering)
                check_moments(storage, clustering)
        assert storage.written > 1.5 * storage.capacity
        check_moments(storage, clustering)


def distances(z: np.ndarray, storage: Storage, clustering) -> np.ndarray:
    """Return the distances of rows ``(n, d)`` to all centers, in the scale of the currently stored rows."""
    everything = storage.features(torch.arange(len(storage))).numpy().astype(np.float64)
    return np.linalg.norm((z[:, None] - clustering.centers[None]) / everything.std(0), axis=2)


@pytest.mark.slow
@pytest.mark.parametrize("part", [ClusterCenter, ClusterMember])
@pytest.mark.parametrize("portions", PORTIONS)
def test_after_a_refresh_every_row_is_in_the_cluster_of_its_nearest_center(part, portions):
    refreshes = 0
    for storage, clustering in fed(part(12, 25), 200, PORTIONS[portions], envs=2):
        if clustering.refreshed == storage.written and len(storage) > 3:
            refreshes += 1
            z = storage.features(torch.arange(len(storage))).numpy()
            away = distances(z, storage, clustering)
            own = away[np.arange(len(z)), clustering.members.cluster[: len(z)]]
            np.testing.assert_allclose(own, away.min(1), atol=1e-3)
    assert refreshes >= 5


def test_between_refreshes_new_rows_join_the_nearest_center():
    part = ClusterMember(12, 100)
    for storage, clustering in fed(part, 500, [400, *[3] * 30]):
        if clustering.refreshed == storage.written:
            frozen = storage.features(torch.arange(len(storage))).numpy().std(0)
            continue
        z = storage.features(torch.arange(storage.written - 3, storage.written)).numpy()
        away = np.linalg.norm((z[:, None] - clustering.centers) / frozen, axis=2)
        own = away[np.arange(3), clustering.members.cluster[storage.written - 3 : storage.written]]
        np.testing.assert_allclose(own, away.min(1), atol=1e-3)
    assert clustering.refreshed == 400


@pytest.mark.slow
def test_many_rows_are_reassigned_in_turn(monkeypatch):
    monkeypatch.setattr("interreplay.neighborhood.clustering.REASSIGNED", 100)
    *_, (storage, clustering) = fed(ClusterCenter(20, 50), 1000, [10] * 400)
    check_lists(storage, clustering)
    check_moments(storage, clustering)
    away = distances(storage.features(torch.arange(1000)).numpy(), storage, clustering)
    assert (away.argmin(1) == clustering.members.cluster).mean() > 0.8


def test_members_are_drawn_uniformly():
    storage, part = Storage(40), ClusterMember(n_clusters=5, refresh_every=10)
    for _ in range(9):
        feed(part, storage, make(10, seed=_, ends=0.0))
    cluster, rng = part.clustering.members.cluster, np.random.default_rng(0)
    anchors = torch.arange(40).repeat(4000)
    found = part.neighbor_slots(storage, anchors, rng)[:, 0].numpy().reshape(4000, 40)
    tested = 0
    for slot in range(40):
        others = [other for other in np.flatnonzero(cluster == cluster[slot]) if other != slot]
        counts = np.bincount(found[:, slot] + 1, minlength=41)[1:]
        assert counts.sum() == counts[others].sum() == (4000 if others else 0)
        if len(others) > 1:
            tested += 1
            assert chisquare(counts[others]).pvalue > 1e-5
    assert tested >= 20


@pytest.mark.parametrize("variant", ["center", "member"])
def test_the_only_member_of_a_cluster_is_not_blended(variant):
    buffer = LCER(capacity=60, variant=variant, n_clusters=25, refresh_every=10, seed=0)
    for seed in range(9):
        buffer.add(make(10, seed=seed, ends=0.0))
    clustering, slots = buffer.neighborhood.clustering, np.arange(60)
    sizes = np.bincount(clustering.members.cluster, minlength=25)
    alone = torch.from_numpy(sizes[clustering.members.cluster] == 1)
    assert 3 <= alone.sum() < 30
    sample = buffer.sample(2000)
    lone = alone[sample.slots]
    assert (sample.mix[lone] == 1).all() and (sample.neighbor_slots[lone] == -1).all()
    identical(sample.transitions[lone], buffer.storage[sample.slots[lone]])
    assert (sample.mix[~lone] < 1).float().mean() > 0.9
    found = buffer.neighborhood.gather(buffer.storage, torch.from_numpy(slots), np.random.default_rng(0))
    assert torch.equal(found.slots[:, 0] == NO_NEIGHBOR, alone)
    if variant == "center":
        assert np.array_equal(row_vectors(found.rows[:, 0][alone]), row_vectors(stored(buffer.storage)[alone]))
    else:
        assert torch.equal(found.stored_slots(torch.from_numpy(slots))[alone, 0], torch.from_numpy(slots)[alone])


def test_a_center_is_the_mean_with_noise():
    part, storage = ClusterCenter(n_clusters=6, refresh_every=50), Storage(300)
    for seed in range(4):
        rows = make(100, seed=seed, ends=0.0)
        feed(part, storage, rows.replace(actions=rows.actions.clamp(-0.8, 0.8)))
    cluster, rng, noise = part.clustering.members.cluster, np.random.default_rng(0), []
    vectors, slots = row_vectors(stored(storage)), torch.arange(300)
    for _ in range(40):
        found = part.gather(storage, slots, rng)
        assert (found.slots == SYNTHETIC).all() and not found.rows.terminated.any()
        noise.append(row_vectors(found.rows[:, 0]))
    for number in np.unique(cluster):
        mine = cluster == number
        mean, std = vectors[mine].mean(0), vectors[mine].std(0)
        drawn = (np.stack(noise)[:, mine] - mean) / (0.01 * std)
        assert all(kstest(drawn[..., dim].ravel(), "norm").pvalue > 1e-5 for dim in range(len(mean)))


def test_noise_is_zero_without_deviation_and_within_bounds():
    rng = np.random.default_rng(0)
    obs = np.repeat(rng.normal(size=(200, 1)), 3, axis=1).astype(np.float32)
    obs[:, 2] = 7.0
    actions = rng.choice([-1.0, 1.0], (200, 2), p=[0.02, 0.98]).astype(np.float32)
    rows = rows_with(obs=obs, actions=actions, rewards=np.full(200, 3.0, np.float32), episode=np.arange(200))
    part, storage = ClusterCenter(n_clusters=1, noise=5.0), Storage(200)
    feed(part, storage, rows)
    made = part.gather(storage, torch.arange(200), np.random.default_rng(0)).rows
    assert (made.rewards == 3).all() and (made.obs[..., 2] == 7).all()
    assert made.obs[..., 0].std() > 3
    assert made.actions.abs().max() == 1 and (made.actions == 1).float().mean() > 0.3
    assert (made.actions.abs() < 1).any()


@pytest.mark.slow
@pytest.mark.parametrize(("drift", "worse"), [(0.0, 1.1), (0.01, 1.5)])
def test_centers_are_about_as_good_as_those_of_lloyds_algorithm(drift, worse):
    """Against Lloyd's algorithm from k-means++; if rows drift, no center is left behind or stays at zero."""
    part, storage = ClusterMember(n_clusters=30, refresh_every=20), Storage(2000)
    for step in range(250):
        rows = make(20, seed=step, ids=False)
        moved = (rows.obs * (0.01 if drift else 1.0) + 9.0 + drift * step).float()
        feed(part, storage, rows.replace(obs=moved, next_obs=moved))
    clustering, z = part.clustering, storage.features(torch.arange(2000)).numpy().astype(np.float64)
    centers = clustering.centers
    margin = 0.05 * np.ptp(z, axis=0)
    assert (centers > z.min(0) - margin).all() and (centers < z.max(0) + margin).all()
    scaled = (z - z.mean(0)) / z.std(0)
    restarted = min(mean_square(scaled, kmeans2(scaled, 30, minit="++", seed=seed)[0]) for seed in range(3))
    assert mean_square(scaled, (centers - z.mean(0)) / z.std(0)) < worse * restarted
    assert (clustering.members.size == 0).sum() <= 1


def mean_square(rows: np.ndarray, centers: np.ndarray) -> float:
    return float(((rows[:, None] - centers) ** 2).sum(2).min(1).mean())


def test_the_number_of_clusters_is_at_most_half_the_rows():
    for storage, clustering in fed(ClusterCenter(n_clusters=1000), 100, [1] * 150):
        assert len(clustering.centers) <= max(1, len(storage) // 2)
    assert len(clustering.centers) > 30


def blends_of(neighborhood, rows: int = 500, capacity: int = 300, ends: float = 0.05) -> ReplayBuffer:
    buffer, episodes = ReplayBuffer(capacity, None, neighborhood, Mixup(UniformMix()), seed=0), Episodes(ends=ends)
    for _ in range(rows // 10):
        buffer.add(episodes.transitions(10))
    return buffer


def on_segment(sample, anchors: Transitions, partners: np.ndarray) -> None:
    mix = sample.mix.numpy()[:, None].astype(np.float64)
    expected = mix * row_vectors(anchors) + (1 - mix) * partners
    np.testing.assert_allclose(row_vectors(sample.transitions), expected, atol=1e-5)


def test_center_blends_are_between_anchor_and_mean():
    buffer = blends_of(ClusterCenter(10, 50, noise=0.0))
    sample, cluster = buffer.sample(1000), buffer.neighborhood.clustering.members.cluster
    vectors = row_vectors(stored(buffer.storage))
    means = np.stack([vectors[cluster == number].mean(0) for number in cluster])  # mean of each row's cluster
    anchors = buffer.storage[sample.slots]
    on_segment(sample, anchors, means[sample.slots.numpy()])
    assert torch.equal(sample.mix == 1, anchors.terminated) and (sample.neighbor_slots == -1).all()
    buffer = LCER(capacity=200, n_clusters=10, n_step=3, gamma=0.9, seed=0)
    buffer.add(make(300))
    sample = buffer.sample(256)
    assert (sample.mix < 1).any()
    assert torch.equal(sample.transitions.discounts, buffer.read(sample.slots).discounts)


@pytest.mark.parametrize("variant", ["center", "member"])
def test_shares_are_uniform(variant):
    buffer, episodes = LCER(capacity=300, variant=variant, n_clusters=10, seed=3), Episodes(ends=0.0)
    buffer.add(episodes.transitions(300))
    mix = torch.cat([buffer.sample(256).mix for _ in range(40)]).numpy()
    assert (mix == 1).mean() < 0.05
    assert kstest(mix[mix < 1], "uniform").pvalue > 1e-4


def test_rows_that_were_not_observed_are_an_error():
    part, storage = ClusterMember(), Storage(10)
    feed(part, storage, make(5))
    storage.add(stack(Episodes(seed=1).rows(1)))
    with pytest.raises(RuntimeError, match="6 rows were stored, but fewer observed"):
        part.neighbor_slots(storage, torch.tensor([0]), np.random.default_rng(0))


def test_goals_are_clustered_by_state_goal_and_action():
    storage = Storage(100)
    goals = {"achieved_goal": (2,), "desired_goal": (2,), "observation": (3,)}
    storage.add(make(80, obs_shape=goals))
    slots = torch.arange(60)
    vectors, before = OneStep().vectors(storage, slots.numpy()), lead(storage.columns)
    z = storage.features(slots)
    assert before == 2 and np.array_equal(vectors[:, before : before + z.shape[1]], z)
    made, rows = as_transitions(torch.from_numpy(vectors), storage.columns), storage[slots]
    assert all(torch.equal(made.obs[name], rows.obs[name]) for name in goals)
    assert all(torch.equal(made.next_obs[name], rows.next_obs[name]) for name in goals)
    assert torch.equal(made.actions, rows.actions) and torch.equal(made.rewards, rows.rewards)


@pytest.mark.slow
@pytest.mark.parametrize("envs", [1, 3])
def test_means_follow_the_view_of_a_draw(envs):
    """RLlib's stock algorithms set n_step at a draw, when many rows are already stored and observed."""
    buffer = ReplayBuffer(200, None, ClusterCenter(5, 25, noise=0.0), Mixup(UniformMix()), seed=0)
    episodes = Episodes(envs=envs, ends=0.03)
    for step in range(60):
        buffer.add(episodes.transitions(10))
        if step < 5:
            continue
        buffer.use_view((OneStep(0.9), NStep(3, 0.9), NStep(3, 0.99), NStep(2, 0.9))[step % 4])
        buffer.sample(16)
        if step % 7 == 0 or step > 55:
            check_means(buffer)


def check_means(buffer: ReplayBuffer) -> None:
    """Assert that partners are the means of the rows of each cluster with known outcomes, as the buffer reads them."""
    storage, view, clustering = buffer.storage, buffer.view, buffer.neighborhood.clustering
    found = buffer.neighborhood.gather(storage, torch.arange(len(storage)), np.random.default_rng(0))
    made = row_vectors(found.rows[:, 0])
    vectors, cluster = row_vectors(stored(storage, view)), clustering.members.cluster[: len(storage)]
    known = view.mature(storage, torch.arange(len(storage))).numpy()
    for slot in np.flatnonzero(found.slots[:, 0].numpy() == SYNTHETIC):
        expected = vectors[known & (cluster == cluster[slot])].mean(0)
        np.testing.assert_allclose(made[slot], expected, atol=1e-5)
