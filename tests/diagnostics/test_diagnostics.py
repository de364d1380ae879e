"""Diagnostics compared with direct computations on small buffers."""

import numpy as np
import pytest
import torch
from builders import rows_with

from interreplay.diagnostics.batch_statistics import Diagnostics, describe
from interreplay.diagnostics.correlation import BINS, age_ess, mean_cosine, mean_gap, share_of_equal
from replay_buffers import NMER, PER, Online, Uniform


def filled(recipe, rows=400, length=50, **arguments):
    rng = np.random.default_rng(0)
    obs = np.cumsum(rng.standard_normal((rows + 1, 3)), axis=0).astype(np.float32)
    episode = np.arange(rows) // length
    terminated = np.arange(rows) % length == length - 1
    buffer = recipe(capacity=1000, seed=0, **arguments)
    actions, rewards = rng.uniform(-1, 1, (rows, 2)).astype(np.float32), rng.standard_normal(rows).astype(np.float32)
    given = {"obs": obs[:-1], "actions": actions, "rewards": rewards, "next_obs": obs[1:]}
    buffer.add(rows_with(**given, terminated=terminated, episode=episode))
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


def test_statistics_of_a_single_row_are_finite():
    _, found = numbers(filled(NMER), errors=torch.tensor([2.0]), size=1)
    assert found["td_error_std"] == 0.0
    assert not [name for name, value in found.items() if not np.isfinite(value)]


def test_uniform_weights_are_all_effective_and_there_are_no_statistics_of_blends():
    _, found = numbers(filled(Uniform))
    assert found["weight_ess"] == pytest.approx(1.0)
    assert not any(name.startswith(("mix", "blended", "neighbor")) for name in found)


def test_shares_of_one_episode():
    assert share_of_equal(torch.tensor([1, 1, 2, 2])) == pytest.approx(2 / 6)
    _, found = numbers(filled(Uniform))
    assert found["same_episode_expected"] == pytest.approx(49 / 399)


def test_measures_of_correlation_compared_with_all_pairs():
    rng = np.random.default_rng(1)
    numbers_of, rows = rng.integers(0, 1_000, 40), rng.standard_normal((40, 4))
    pairs = [(i, j) for i in range(40) for j in range(40) if i != j]
    gaps = np.mean([abs(numbers_of[i] - numbers_of[j]) for i, j in pairs])
    assert mean_gap(torch.from_numpy(numbers_of)) == pytest.approx(gaps)
    scaled = (rows - rows[:30].mean(0)) / rows[:30].std(0, ddof=1)
    cosines = [abs(scaled[i] @ scaled[j]) / np.linalg.norm(scaled[i]) / np.linalg.norm(scaled[j]) for i, j in pairs]
    states = torch.from_numpy(rows)
    scale = torch.std_mean(states[:30], dim=0)
    assert mean_cosine(states, *scale) == pytest.approx(np.mean(cosines))
    constant = torch.column_stack([states, torch.full((40,), 7.0)])
    found = mean_cosine(constant, *torch.std_mean(constant[:30], dim=0))
    assert found == pytest.approx(np.mean(cosines)), "constants are ignored"
    assert mean_gap(torch.tensor([5])) == 0.0 and abs(mean_cosine(states[:1], *scale)) < 1e-12


def test_effective_number_of_ages():
    assert age_ess(torch.arange(400), 400) == pytest.approx(1.0)
    assert age_ess(torch.arange(20), 400) == pytest.approx(1 / BINS)
    assert age_ess(torch.tensor([0, 0, 0, 399]), 400) == pytest.approx(16 / (BINS * 10))


def test_the_newest_rows_are_correlated_and_uniform_rows_are_not():
    _, newest = numbers(filled(Online))
    _, uniform = numbers(filled(Uniform))
    assert newest["time_gap"] == pytest.approx(65 / 3 / 400)
    assert newest["age_ess"] == pytest.approx(64**2 / BINS / (3 * 20**2 + 4**2))
    assert newest["same_episode_share"] > 0.5 > newest["same_episode_expected"]
    assert newest["state_cosine"] > 1.3 * newest["state_cosine_expected"]
    assert uniform["time_gap"] == pytest.approx(1 / 3, rel=0.15)
    assert uniform["age_ess"] > 0.6
    assert uniform["state_cosine"] == pytest.approx(uniform["state_cosine_expected"], rel=0.2)


def test_blends():
    sample, found = numbers(filled(NMER))
    assert found["mix_mean"] == pytest.approx(float(sample.mix.mean()))
    assert found["blended_share"] == pytest.approx(float((sample.mix < 1).float().mean()))
    assert found["blended_share"] + found["reverted_share"] == pytest.approx(1.0)
    assert 0 < found["neighbor_distance"] < 0.8
    _, none = numbers(filled(NMER, prob_interpolation=0.0))
    assert none["reverted_share"] == 1.0 and "neighbor_distance" not in none


def test_diagnostics_change_nothing_and_restore_their_state():
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
    assert sum(again.state_dict()["drawn_by_buffer"].values()) == 160


def test_rows_with_equal_states_and_actions_have_no_neighbor_distance():
    buffer = NMER(capacity=50, seed=0)
    buffer.add(rows_with(obs=np.ones((20, 3), np.float32)))
    sample, found = numbers(buffer)
    assert (sample.neighbor_slots >= 0).any()
    assert "neighbor_distance" not in found
    assert all(np.isfinite(list(found.values())))
