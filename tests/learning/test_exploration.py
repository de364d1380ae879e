"""Exploration noise: its statistics against closed forms, and what a part owes its runner."""

import math

import numpy as np
import pytest
import torch

from interreplay.learning.exploration import Gaussian, OrnsteinUhlenbeck, make_exploration


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_gaussian_is_scaled_standard_noise():
    drawn = Gaussian(0.3).draw((1_000, 4), rng())
    assert torch.equal(drawn, 0.3 * torch.randn((1_000, 4), generator=rng()))
    assert torch.equal(Gaussian(1.0).draw((5, 2), rng()), torch.randn((5, 2), generator=rng()))


@pytest.mark.parametrize(("theta", "sigma", "dt"), [(0.15, 0.2, 1.0), (0.5, 0.1, 0.25)])
def test_ornstein_uhlenbeck_has_its_variance_and_correlation(theta, sigma, dt):
    """x_t = a·x_{t−1} + σ·√dt·N from 0, a = 1 − θ·dt: variance σ²·dt·(1 − a^{2t}) / (1 − a²), correlation a."""
    noise, generator, a = OrnsteinUhlenbeck(sigma, theta, dt), rng(), 1 - theta * dt
    steps = torch.stack([noise.draw((50_000, 1), generator).squeeze(1) for _ in range(60)])
    for t in (1, 3, 60):
        variance = sigma**2 * dt * (1 - a ** (2 * t)) / (1 - a**2)
        assert steps[t - 1].var().item() == pytest.approx(variance, rel=0.03)
        assert abs(steps[t - 1].mean().item()) < 5 * math.sqrt(variance / 50_000)
    assert np.corrcoef(steps[-2], steps[-1])[0, 1] == pytest.approx(a, abs=0.01)


def test_with_theta_one_ornstein_uhlenbeck_is_gaussian():
    one, other, g, h = OrnsteinUhlenbeck(0.2, 1.0), Gaussian(0.2), rng(), rng()
    for _ in range(3):
        assert torch.allclose(one.draw((4, 2), g), other.draw((4, 2), h))


def test_it_begins_anew_where_an_episode_does():
    noise, fresh = OrnsteinUhlenbeck(), OrnsteinUhlenbeck()
    for i in range(5):
        noise.draw((3, 2), rng(i))
    noise.start(np.array([False, True, False]))
    following, first = noise.draw((3, 2), rng(9)), fresh.draw((3, 2), rng(9))
    assert torch.equal(following[1], first[1])
    assert not torch.isclose(following[[0, 2]], first[[0, 2]]).any()


@pytest.mark.parametrize("drawn", [0, 4])
def test_its_state_is_all_it_needs_to_go_on(drawn):
    one, other = OrnsteinUhlenbeck(), OrnsteinUhlenbeck()
    for i in range(drawn):
        one.draw((2, 3), rng(i))
    other.load_state_dict(one.state_dict())
    for i in range(3):
        assert torch.equal(one.draw((2, 3), rng(50 + i)), other.draw((2, 3), rng(50 + i)))


def test_it_is_made_by_name():
    made = make_exploration({"type": "OrnsteinUhlenbeck", "theta": 0.3})
    assert isinstance(made, OrnsteinUhlenbeck) and vars(made) == vars(OrnsteinUhlenbeck(theta=0.3))
    assert make_exploration(made) is made


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(-0.1), "sigma is -0.1"),
        (lambda: OrnsteinUhlenbeck(theta=1.5), "theta is 1.5"),
        (lambda: OrnsteinUhlenbeck(dt=0.0), "dt 0.0"),
        (lambda: make_exploration("Gaussian"), "exploration is 'Gaussian'"),
        (lambda: make_exploration({"type": "Gausian"}), "did you mean Gaussian"),
        (lambda: make_exploration({"type": "Gaussian", "theta": 0.1}), "theta"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
