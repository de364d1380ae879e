"""Diagnostics against direct computations on small, known buffers."""

import numpy as np
import pytest
import torch

from interreplay import Transitions
from interreplay.diagnostics.batch_statistics import Diagnostics, describe, same_share
from replay_buffers import LCER, NMER, PER, Uniform


def filled(recipe, rows=400, length=50, **arguments):
    rng = np.random.default_rng(0)
    obs = np.cumsum(rng.standard_normal((rows + 1, 3)), axis=0).astype(np.float32)
    episode = np.arange(rows) // length
    terminated = np.arange(rows) % length == length - 1
    buffer = recipe(capacity=1000, seed=0, **arguments)
    actions, rewards = rng.uniform(-1, 1, (rows, 2)).astype(np.float32), rng.standard_normal(rows).astype(np.float32)
    buffer.add(Transitions(obs[:-1], actions, rewards, obs[1:], terminated, np.zeros(rows, bool), episode))
    return buffer


def numbers(buffer, errors=None, size=64):
    sample = buffer.sample(size)
    uniform = torch.arange(len(buffer))
    return sample, describe(buffer, sample, torch.linspace(-1, 3, size) if errors is None else errors, uniform)


def test_td_errors_weights_and_ages():
    buffer = filled(PER, beta=1.0)
    buffer.update(buffer.sample(64), torch.rand(64, generator=torch.Generator().manual_seed(0)) * 10)
    sample, found = numbers(buffer)
    size = np.abs(np.linspace(-1, 3, 64))
    assert found["td_error_mean"] == pytest.approx(size.mean(), rel=1e-5)
    assert found["td_error_max"] == pytest.approx(3)
    w = sample.weights.numpy()
    assert found["weight_ess"] == pytest.approx(w.sum() ** 2 / (64 * (w**2).sum()), rel=1e-5)
    assert found["weight_ess"] < 0.99
    assert found["age_mean"] == pytest.approx(np.mean(399 - sample.slots.numpy()) / 400, rel=1e-5)


def test_uniform_weights_are_all_effective_and_nothing_is_said_of_blends():
    _, found = numbers(filled(Uniform))
    assert found["weight_ess"] == pytest.approx(1.0)
    assert not any(name.startswith(("mix", "blended", "neighbor")) for name in found)


def test_shares_of_one_episode():
    assert same_share(torch.tensor([1, 1, 2, 2])) == pytest.approx(2 / 6)
    _, found = numbers(filled(Uniform))
    assert found["same_episode_expected"] == pytest.approx(49 / 399)


def test_blends():
    sample, found = numbers(filled(NMER))
    assert found["mix_mean"] == pytest.approx(float(sample.mix.mean()))
    assert found["blended_share"] == pytest.approx(float((sample.mix < 1).float().mean()))
    assert found["blended_share"] + found["reverted_share"] == pytest.approx(1.0)
    assert 0 < found["neighbor_distance"] < 0.8
    _, none = numbers(filled(NMER, prob_interpolation=0.0))
    assert none["reverted_share"] == 1.0 and "neighbor_distance" not in none


def test_clusters():
    buffer = filled(LCER, n_clusters=30)
    _, found = numbers(buffer)
    sizes = np.bincount(buffer.neighborhood.clustering.members.cluster[:400], minlength=30)
    assert (found["clusters"], found["cluster_size_max"]) == (30, sizes.max())
    assert found["lone_members"] == pytest.approx((sizes == 1).sum() / 400)
    assert 0 < found["blended_share"] <= 1


def test_looking_changes_nothing_and_continues_from_its_state():
    watched, alone = filled(NMER), filled(NMER)
    diagnostics = Diagnostics(every=2)
    for _ in range(5):
        sample, other = watched.sample(32), alone.sample(32)
        assert torch.equal(sample.slots, other.slots) and torch.equal(sample.mix, other.mix)
        diagnostics.observe(watched, sample, torch.zeros(32))
    again = Diagnostics(every=2)
    again.load_state_dict(diagnostics.state_dict())
    assert diagnostics.collect() == again.collect()
    assert diagnostics.collect() == {}
    assert again.state_dict()["drawn"] == 160
