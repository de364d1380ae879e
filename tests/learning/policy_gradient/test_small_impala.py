"""IMPALA's update of small networks, which run in numpy, compared with networks that run in PyTorch."""

import copy

import pytest
import torch

from interreplay.learning.policy_gradient.impala import IMPALAUpdate
from interreplay.learning.policy_gradient.unroll_settings import A2CSettings, IMPALASettings
from tests.learning.plain_torch import without_numpy
from tests.learning.policy_gradient.test_impala import ACTIONS, OBS, SETTINGS, B, T, networks, unrolls

CASES = {
    "plain": IMPALASettings(),
    "bounds": IMPALASettings(**SETTINGS["bounds"]),
    "a2c": A2CSettings(entropy_coeff=0.1, returns_lambda=0.9),
    "adam": IMPALASettings(optimizer="Adam", optimizer_eps=1e-6, loss="mean"),
}


def learned(name, shared):
    """Return the results of some updates, and the update object."""
    update, results = IMPALAUpdate(networks(shared=shared), CASES[name], 0.9), []
    for i in range(10):
        weights = torch.rand(B, generator=torch.Generator().manual_seed(i))
        results.append(update.update(unrolls(seed=i).replace(weights=weights)))
    return results, update


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_updates_equal_those_of_networks_in_pytorch(name, shared):
    found, update = learned(name, shared)
    with without_numpy():
        required, plain = learned(name, shared)
    for one, other in zip(found, required, strict=True):
        torch.testing.assert_close(one.metrics, other.metrics, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(one.errors, other.errors, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(one.policy, other.policy, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(plain.parameters, update.parameters, rtol=1e-3, atol=1e-5)


def test_nothing_is_divided_by_no_steps():
    nets, given = networks(), unrolls(fresh=True)
    given = given.replace(live=torch.zeros(T, B, dtype=torch.bool))
    result = IMPALAUpdate(nets, IMPALASettings(), 0.9).update(given)
    assert torch.isfinite(result.metrics).all() and not result.errors.any()


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("shared", [True, False])
def test_passes_of_small_networks_are_pytorchs(shared, activation):
    layers = networks(shared=shared).actor.layers
    for body in layers.bodies:
        body.activation = activation
    rows = torch.randn(7, OBS, requires_grad=True)
    slopes = torch.randn(7, ACTIONS + 1)
    found = layers.outputs(rows)
    with without_numpy():
        expected = layers.outputs(rows)
    torch.testing.assert_close(found, expected)
    with torch.no_grad():
        torch.testing.assert_close(layers.outputs(rows), expected)
    required = [rows, *layers.parameters()]
    gradients = torch.autograd.grad(expected, required, slopes)
    torch.testing.assert_close(torch.autograd.grad(found, required, slopes), gradients)


def test_networks_follow_parameters_that_are_copied_loaded_and_replaced():
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
