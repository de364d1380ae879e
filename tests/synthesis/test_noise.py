"""Noise: its size, the numbers that it is added to, and the standard deviation of the stored rows."""

import numpy as np
import pytest
import torch
from builders import KINDS, Episodes, identical, make, row_vectors
from scipy.stats import kstest

from interreplay import Transitions
from replay_buffers import Noise, Uniform


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("capacity", "chunk"), [(64, 1), (100, 7), (100, 100), (1000, 333), (70, 64)])
def test_the_standard_deviation_is_that_of_the_stored_rows(kind, capacity, chunk):
    buffer, episodes = Noise(capacity=capacity), Episodes(envs=2, **KINDS[kind])
    for turn in range(12):
        given = episodes.transitions(chunk)
        buffer.add(given.replace(rewards=given.rewards * (turn + 1) + 1e4))
        numbers = torch.from_numpy(row_vectors(buffer.storage[torch.arange(len(buffer))]))
        assert torch.allclose(buffer.synthesizer.std(), numbers.std(0, correction=0), rtol=1e-6, atol=1e-9)


def drawn_noise(rows: int = 4000, **arguments) -> tuple[torch.Tensor, torch.Tensor, Noise]:
    buffer = Noise(capacity=500, seed=0, action_low=-100.0, action_high=100.0, **arguments)
    buffer.add(make(500))
    sample = buffer.sample(rows)
    anchors = buffer.storage[sample.slots]
    flat = [torch.from_numpy(row_vectors(rows)) for rows in (sample.transitions, anchors)]
    assert torch.equal(sample.transitions.terminated, anchors.terminated)
    assert torch.equal(sample.transitions.discounts, anchors.discounts)
    assert sample.mix is None and (sample.neighbor_slots == -1).all()
    return *flat, buffer


def test_noise_is_normal_with_the_standard_deviation_of_each_number():
    rows, anchors, buffer = drawn_noise(sigma=0.3)
    noise = (rows - anchors) / (0.3 * buffer.synthesizer.std())
    for column in noise.T:
        assert kstest(column.numpy(), "norm").pvalue > 1e-4
    correlation = np.corrcoef(noise.T.numpy()) - np.eye(noise.shape[1])
    assert abs(correlation).max() < 0.1, "one for every number"
    assert len(noise[:, 0].unique()) > 3900, "and for every row"


def test_multiplicative_noise():
    rows, anchors, _ = drawn_noise(sigma=0.3, multiplicative=True)
    large = anchors.abs() > 0.1
    noise = ((rows - anchors) / (0.3 * anchors))[large]
    assert kstest(noise.numpy(), "norm").pvalue > 1e-4


def test_actions_stay_within_bounds():
    buffer = Noise(capacity=50, sigma=3.0, action_low=np.array([-0.5, 0.0]), action_high=np.array([0.5, 2.0]), seed=0)
    given = make(50)
    buffer.add(given.replace(actions=given.actions.clamp(0.0, 0.5)))
    actions = buffer.sample(500).transitions.actions
    assert actions.min(0).values.tolist() == [-0.5, 0.0] and actions.max(0).values.tolist() == [0.5, 2.0]


def test_sigma_0_is_uniform_replay():
    plain, still = Uniform(capacity=100, seed=2), Noise(capacity=100, sigma=0.0, seed=2)
    for buffer in (plain, still):
        buffer.add(make(150, envs=3))
    one, other = plain.sample(64), still.sample(64)
    assert torch.equal(one.slots, other.slots)
    identical(one.transitions, other.transitions)


def test_constant_numbers_do_not_change():
    buffer, given = Noise(capacity=100, seed=0), make(100)
    obs = given.obs.clone()
    obs[:, 1] = 3.7
    buffer.add(Transitions(obs, given.actions, given.rewards, given.next_obs, given.terminated, given.truncated))
    assert (buffer.sample(64).transitions.obs[:, 1] == np.float32(3.7)).all()


def test_nbytes_is_an_upper_bound():
    buffer, given = Noise(capacity=1000), make(10)
    buffer.add(given)
    taken = sum(array.nbytes for array in buffer.synthesizer.state_dict().values())
    assert taken <= buffer.synthesizer.nbytes(1000, features=5) <= 1.5 * taken
    assert Noise(capacity=1000, multiplicative=True).synthesizer.nbytes(1000, features=5) == 0
