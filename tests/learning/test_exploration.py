"""Exploration: noise compared with closed forms, actions, and the contract with the runner."""

import math

import numpy as np
import pytest
import torch

from interreplay.errors import PartError
from interreplay.learning.actor_critic.discrete_sac import CategoricalActor
from interreplay.learning.actor_critic.sac import GaussianActor
from interreplay.learning.actor_critic.td3 import DeterministicActor
from interreplay.learning.exploration import (
    EpsilonGreedy,
    Exploration,
    Gaussian,
    Greedy,
    Noisy,
    OrnsteinUhlenbeck,
    Random,
    Sampled,
    make_exploration,
)
from tests.learning.batches import rng

INPUTS, SIZE = 4, 3
POLICIES = {
    "gaussian": GaussianActor(INPUTS, SIZE, (8,)),
    "deterministic": DeterministicActor(INPUTS, SIZE, (8,)),
    "categorical": CategoricalActor(INPUTS, SIZE, (8,)),
}
OBS = torch.randn(2_000, INPUTS, generator=torch.Generator().manual_seed(9))


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


def test_noise_restarts_with_an_episode():
    noise, fresh = OrnsteinUhlenbeck(), OrnsteinUhlenbeck()
    for i in range(5):
        noise.draw((3, 2), rng(i))
    noise.start(np.array([False, True, False]))
    following, first = noise.draw((3, 2), rng(9)), fresh.draw((3, 2), rng(9))
    assert torch.equal(following[1], first[1])
    assert not torch.isclose(following[[0, 2]], first[[0, 2]]).any()


def test_the_state_is_sufficient_to_resume():
    one, other = OrnsteinUhlenbeck(), OrnsteinUhlenbeck()
    for i in range(6):
        other.load_state_dict(one.state_dict())
        assert torch.equal(one.draw((2, 3), rng(i)), other.draw((2, 3), rng(i)))


def test_explorations_are_made_by_name():
    made = make_exploration({"type": "OrnsteinUhlenbeck", "theta": 0.3})
    assert isinstance(made, OrnsteinUhlenbeck) and vars(made) == vars(OrnsteinUhlenbeck(theta=0.3))
    assert make_exploration(made) is made


def test_invalid_settings_are_rejected():
    for make, message in (
        (lambda: Gaussian(-0.1), "sigma is -0.1"),
        (lambda: OrnsteinUhlenbeck(theta=1.5), "theta is 1.5 and dt 1.0; expected theta of at most 1 / dt"),
        (lambda: OrnsteinUhlenbeck(dt=0.0), "dt is 0.0; expected a number above 0"),
        (lambda: OrnsteinUhlenbeck(theta="1"), "theta is '1'; expected a number of 0 or more"),
        (lambda: make_exploration(3), "exploration is 3"),
        (lambda: make_exploration({"type": "Gausian"}), "did you mean Gaussian"),
        (lambda: make_exploration({"type": "Gaussian", "theta": 0.1}), "theta"),
        (lambda: EpsilonGreedy(start=1.5), "start is 1.5"),
        (lambda: Sampled().check(POLICIES["deterministic"]), "Sampled and the policy is deterministic"),
        (lambda: Gaussian().check(POLICIES["categorical"]), "exploration is Gaussian and actions are discrete"),
        (lambda: Noisy().check(POLICIES["gaussian"]), "exploration is Noisy and the policy has no noisy layers"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def test_a_gaussian_policy_is_sampled_by_one_normal_number_per_dimension():
    policy = POLICIES["gaussian"]
    mean, log_std = policy.output(OBS).chunk(2, dim=-1)
    noise = torch.randn((len(OBS), SIZE), generator=rng())
    std = log_std.clamp(-20, 2).exp()
    assert torch.equal(Sampled().act(policy, OBS, rng()), torch.tanh(mean + std * noise))


@pytest.mark.parametrize("name", ["gaussian", "deterministic"])
@pytest.mark.parametrize("make", [lambda: Gaussian(0.8), lambda: OrnsteinUhlenbeck(0.8)])
def test_noise_is_added_to_the_best_actions_and_clipped(name, make):
    policy = POLICIES[name]
    actions = make().act(policy, OBS, rng())
    assert torch.equal(actions, (policy.act(OBS) + make().draw((len(OBS), SIZE), rng())).clamp(-1, 1))
    assert actions.max() == 1 and actions.min() == -1


@pytest.mark.parametrize("name", POLICIES)
def test_random_actions_are_uniform(name):
    policy = POLICIES[name]
    actions = Random().act(policy, OBS, rng())
    if policy.discrete:
        shares = torch.bincount(actions, minlength=SIZE) / len(OBS)
        assert actions.shape == (len(OBS),) and (shares - 1 / SIZE).abs().max() < 5 * 0.5 / math.sqrt(len(OBS))
    else:
        assert actions.shape == (len(OBS), SIZE) and actions.abs().max() <= 1
        assert actions.var().item() == pytest.approx(1 / 3, rel=0.05) and abs(actions.mean().item()) < 0.05


@pytest.mark.parametrize("name", POLICIES)
def test_epsilon_of_the_actions_are_random(name):
    policy, exploration = POLICIES[name], EpsilonGreedy(start=0.9, end=0.1, share=0.2)
    exploration.anneal(0.1)
    best, actions = policy.act(OBS), exploration.act(policy, OBS, rng())
    assert actions.dtype == best.dtype and actions.shape == best.shape
    differ = (actions != best).reshape(len(OBS), -1).any(dim=1).float().mean().item()
    expected = 0.5 * (1 - 1 / SIZE) if policy.discrete else 0.5
    assert abs(differ - expected) < 5 * 0.5 / math.sqrt(len(OBS))


def test_epsilon_falls_over_a_share_of_the_run_stays_or_changes_at_once():
    for progress, epsilon in ((0.0, 0.9), (0.1, 0.5), (0.2, 0.1), (0.7, 0.1)):
        one, other = (EpsilonGreedy(start=0.9, end=0.1, share=0.2) for _ in range(2))
        one.anneal(progress)
        other.load_state_dict(one.state_dict())
        assert one.epsilon == other.epsilon == pytest.approx(epsilon)
    assert not EpsilonGreedy(0.1, 0.1).annealed and EpsilonGreedy().annealed
    assert EpsilonGreedy(1.0, 0.2, share=0.0).epsilon == 0.2


class NoisyActor(DeterministicActor):
    """Actor that counts its noisy outputs; its actions are a tenth of the count."""

    noisy, renewed = True, 0

    def noisy_output(self, obs, rng):
        self.renewed += 1
        return torch.full((len(obs), SIZE), 0.1 * self.renewed)


def test_noisy_networks_draw_noise_before_each_step():
    policy, exploration = NoisyActor(INPUTS, SIZE, (8,)), Noisy()
    exploration.check(policy)
    for step in (1, 2, 3):
        actions, recorded = exploration.act_and_record(policy, OBS, rng())
        assert torch.allclose(actions, torch.tensor(0.1 * step))
        assert torch.equal(recorded["behavior"], policy.output(OBS)), "without noise"


@pytest.mark.parametrize("make", [Greedy, Sampled, EpsilonGreedy, Gaussian, Random])
def test_actions_are_returned_with_the_outputs_of_the_policy(make):
    unsupported = {("deterministic", Sampled), ("categorical", Gaussian)}
    for name, policy in POLICIES.items():
        if (name, make) in unsupported:
            continue
        actions, recorded = make().act_and_record(policy, OBS, rng())
        assert torch.equal(actions, make().act(policy, OBS, rng())), name
        expected = policy.record_random(len(OBS)) if make is Random else policy.record(policy.output(OBS))
        assert recorded.keys() == expected.keys() == {"behavior"}
        assert torch.equal(recorded["behavior"], expected["behavior"]), name


class Fixed(Exploration):
    """Returns what it was given."""

    def __init__(self, returned):
        self.returned = returned

    def choose(self, policy, output, rng):
        return self.returned


FLOATS = r"a tensor of floats from -1 to 1 of shape \(4, 3\)"
INTEGERS = r"a tensor of integers from 0 to 2 of shape \(4,\)"


def test_invalid_actions_of_a_users_exploration_are_rejected():
    for name, returned, message, expected in (
        ("gaussian", None, "a NoneType", FLOATS),
        ("gaussian", torch.zeros(4, 1), r"actions of shape \(4, 1\) of torch.float32", FLOATS),
        ("gaussian", torch.zeros(4, SIZE, dtype=torch.int64), r"actions of shape \(4, 3\) of torch.int64", FLOATS),
        ("deterministic", torch.full((4, SIZE), math.nan), "the action nan", FLOATS),
        ("categorical", torch.full((4,), SIZE), "the action 3", INTEGERS),
        ("categorical", torch.zeros(4), r"actions of shape \(4,\) of torch.float32", INTEGERS),
    ):
        with pytest.raises(PartError, match=f"exploration Fixed returned {message}; expected {expected}"):
            Fixed(returned).act(POLICIES[name], OBS[:4], rng())


def test_valid_actions_of_a_users_exploration_are_returned():
    for name, actions in (("gaussian", torch.ones(4, SIZE)), ("categorical", torch.arange(4) % SIZE)):
        assert torch.equal(Fixed(actions).act(POLICIES[name], OBS[:4], rng()), actions)
    clipped = Fixed(torch.full((4, SIZE), -1.5)).act(POLICIES["deterministic"], OBS[:4], rng())
    assert torch.equal(clipped, torch.full((4, SIZE), -1.0))
