"""IMPALA's update with losses by hand against the one by autograd, and passes of small networks against PyTorch's."""

from __future__ import annotations

import copy

import pytest
import torch

from interreplay.learning.encoders import Flat
from interreplay.learning.fast.unrolls.impala import FastImpalaUpdate, fits
from interreplay.learning.fast.values.numpy_passes import SMALL
from interreplay.learning.impala import ImpalaUpdate
from interreplay.learning.policy_value import CategoricalWithValue, NormalWithValue, PolicyValueNetworks
from interreplay.learning.unroll_settings import A2CSettings, IMPALASettings
from tests.learning.test_impala import ACTIONS, OBS, SETTINGS, B, T, networks, unrolls

CASES = {
    "plain": IMPALASettings(),
    "bounds": IMPALASettings(**SETTINGS["bounds"]),
    "a2c": A2CSettings(entropy_coeff=0.1, returns_lambda=0.9),
    "adam": IMPALASettings(optimizer="Adam", optimizer_eps=1e-6, loss="mean"),
}


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_it_is_the_update_by_autograd(name, shared):
    nets = networks(shared=shared)
    plain, fast = (kind(copy.deepcopy(nets), CASES[name], 0.9) for kind in (ImpalaUpdate, FastImpalaUpdate))
    for i in range(10):
        given = unrolls(seed=i).replace(weights=torch.rand(B, generator=torch.Generator().manual_seed(i)))
        one, other = plain.update(given), fast.update(given)
        torch.testing.assert_close(one.metrics, other.metrics, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(one.errors, other.errors, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(one.policy, other.policy, rtol=1e-4, atol=1e-5)
    for p, q in zip(plain.parameters, fast.parameters, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)


def test_nothing_is_divided_by_no_steps():
    nets, given = networks(), unrolls(fresh=True)
    given = given.replace(live=torch.zeros(T, B, dtype=torch.bool))
    result = FastImpalaUpdate(nets, IMPALASettings(), 0.9).update(given)
    assert torch.isfinite(result.metrics).all() and not result.errors.any()
    assert torch.isfinite(ImpalaUpdate(nets, IMPALASettings(), 0.9).update(given).metrics).all()


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("shared", [True, False])
def test_passes_of_small_networks_are_pytorchs(shared, activation):
    layers = networks(shared=shared).actor.layers
    for body in layers.bodies:
        body.activation = activation
    rows, slopes = torch.randn(7, OBS), torch.randn(7, ACTIONS + 1)
    expected = layers.outputs(rows)
    with torch.no_grad():
        torch.testing.assert_close(layers.outputs(rows), expected.detach())
    gradients = torch.autograd.grad(expected, [*layers.parameters()], slopes)
    run = layers.run(rows)
    torch.testing.assert_close(run.outputs, expected.detach())
    run.learn(slopes)
    for parameter, gradient in zip(layers.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_they_follow_parameters_that_are_copied_loaded_and_replaced():
    nets, rows = networks(), torch.randn(7, OBS)
    with torch.no_grad():
        before = nets.actor.output(rows)
        other = copy.deepcopy(nets)
        for parameter in other.parameters():
            parameter.mul_(2.0)
        changed = other.actor.output(rows)
        assert torch.equal(nets.actor.output(rows), before) and not torch.equal(changed, before)
        nets.load_state_dict(other.state_dict())
        assert torch.equal(nets.actor.output(rows), changed)
        for parameter in nets.parameters():
            parameter.data = parameter.data / 2.0
        torch.testing.assert_close(nets.actor.output(rows), before)


def test_where_it_fits():
    assert fits(networks(), IMPALASettings()) and fits(networks(), A2CSettings())
    assert not fits(networks(continuous=True), IMPALASettings())
    assert not fits(networks(), IMPALASettings(policy_cloning=0.1))
    assert not fits(networks(), IMPALASettings(relevance_bound=0.1))
    assert not fits(networks().to("meta"), IMPALASettings())
    large = PolicyValueNetworks(CategoricalWithValue(OBS, ACTIONS, [SMALL // OBS]))
    large.encoder = Flat()
    assert fits(large, IMPALASettings()) and large.actor.layers._small_bodies() == []
    assert len(networks().actor.layers._small_bodies()) == 1
    assert NormalWithValue(OBS, ACTIONS, [8], shared=False).layers._small_bodies()
