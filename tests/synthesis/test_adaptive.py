"""The learned temperature of Continuous Transition."""

import copy

import numpy as np
import pytest
import torch
from builders import make, require_same_samples
from scipy.stats import beta, kstest
from torch import nn

from interreplay import Transitions
from interreplay.learning.networks.layers import MLP
from interreplay.synthesis import AdaptiveMixup, adaptive
from interreplay.synthesis.adaptive import LOWEST, DynamicsModel, features, outcomes
from replay_buffers import ContinuousTransition


def pairs(n: int = 64, seed: int = 0, scale: float = 1.0) -> tuple[Transitions, Transitions]:
    rows = make(2 * n, ends=0.0, seed=seed)
    rows = rows.replace(next_obs=rows.next_obs * scale, rewards=rows.rewards * scale)
    return rows[:n], rows[n:].map(lambda column: column.unsqueeze(1))


def test_one_batch_equals_the_formulas():
    """Also without gradients, as in a loop that collects experience."""
    anchors, neighbors = pairs()
    mixup = AdaptiveMixup(hiddens=(8, 8))
    rng = np.random.default_rng(0)
    mixup(anchors, neighbors, rng)
    fit, before = copy.deepcopy(mixup.fit), copy.deepcopy(mixup.fit)
    with torch.no_grad():
        made = mixup(anchors, neighbors, rng)
    rows, mix = made.rows, made.mix
    assert not rows.obs.requires_grad and not mix.requires_grad
    partners = neighbors[:, 0]
    model = before.model
    with torch.no_grad():
        line = mix[:, None] * model(features(anchors)) + (1 - mix[:, None]) * model(features(partners))
        d = (model(features(rows)) - line).square().mean(1)
    # the model: one step of Adam on the mean squared error of both ends
    ends = torch.cat([features(anchors), features(partners)])
    targets = torch.cat([outcomes(anchors), outcomes(partners)])
    adam = torch.optim.Adam(model.parameters(), lr=3e-4)
    adam.load_state_dict(fit.optimizers[0].state_dict())
    nn.functional.mse_loss(model(ends), targets).backward()
    adam.step()
    torch.testing.assert_close(mixup.fit.model.state_dict(), model.state_dict(), rtol=1e-5, atol=1e-6)
    # the temperature: one step of Adam on mean(log β·(d − τ))
    temperature = nn.Parameter(before.beta.detach().clone())
    adam = torch.optim.Adam([temperature], lr=3e-4)
    adam.load_state_dict(fit.optimizers[1].state_dict())
    (temperature.log() * (d - 0.1)).mean().backward()
    adam.step()
    assert mixup.temperature == pytest.approx(min(1.0, float(temperature.detach())), abs=1e-6)


def test_a_nonlinear_model_lowers_the_temperature_and_a_linear_one_raises_it():
    anchors, neighbors = pairs(scale=50.0)
    mixup, rng = AdaptiveMixup(threshold=1e-9, lr=1e-2, hiddens=(32, 32)), np.random.default_rng(0)
    found = []
    for _ in range(150):
        mixup(anchors, neighbors, rng)
        found.append(mixup.temperature)
    assert found == sorted(found, reverse=True) and found[-1] == pytest.approx(LOWEST)
    mixup = AdaptiveMixup(threshold=1e9, lr=1e-2, hiddens=(32, 32))
    mixup(anchors, neighbors, rng)
    mixup.fit.beta.data.fill_(0.5)
    found = []
    for _ in range(100):
        mix = mixup(anchors, neighbors, rng).mix
        found.append(mixup.temperature)
    assert found == sorted(found) and found[-1] == 1.0 and mix.min() >= 0 and mix.max() <= 1


def test_rows_that_are_not_blended_do_not_change_the_temperature():
    anchors, neighbors = pairs()
    mixup, rng = AdaptiveMixup(threshold=1e9, hiddens=(8,)), np.random.default_rng(0)
    mixup.beta.alpha = 0.5
    alone = anchors.map(lambda column: column.unsqueeze(1))
    mixup(anchors, alone, rng)
    ended = anchors.replace(terminated=torch.ones(64, dtype=torch.bool))
    mixup(ended, neighbors, rng)
    assert mixup.temperature == 0.5


def used(seed: int = 0) -> ContinuousTransition:
    buffer = ContinuousTransition(capacity=100, seed=seed)
    for start in range(3):
        buffer.add(make(50, seed=start, envs=2))
        buffer.sample(16)
    return buffer


def test_the_global_generator_is_not_used():
    torch.manual_seed(1)
    one = used()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    other = used()
    assert torch.equal(torch.get_rng_state(), before)
    require_same_samples(one.sample(16), other.sample(16))


def test_initial_weights_do_not_depend_on_other_draws_from_the_global_generator(monkeypatch):
    """Runs that train in threads of one process may draw from it at the same time."""
    expected = DynamicsModel([4, 8, 3], lr=1e-3, seed=5).model.state_dict()

    class Disturbed(MLP):
        def __init__(self, sizes):
            torch.rand(1)
            super().__init__(sizes)

    monkeypatch.setattr(adaptive, "MLP", Disturbed)
    found = DynamicsModel([4, 8, 3], lr=1e-3, seed=5).model.state_dict()
    torch.testing.assert_close(found, expected, rtol=0.0, atol=0.0)


def test_lambda_is_drawn_from_the_beta_distribution_of_the_temperature():
    anchors, neighbors = pairs(3000)
    mixup = AdaptiveMixup(hiddens=(4,))
    mixup.beta.alpha = 0.5
    mix = mixup(anchors, neighbors, np.random.default_rng(0)).mix
    assert kstest(mix.double().numpy(), beta(0.5, 0.5).cdf).pvalue > 1e-4
