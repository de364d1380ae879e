"""Small networks of IMPALA, which run in numpy, compared with networks that run in PyTorch."""

import copy

import pytest
import torch

from interreplay.learning.policy_gradient.impala import IMPALAUpdate
from interreplay.learning.policy_gradient.unroll_settings import IMPALASettings
from tests.learning.plain_torch import without_numpy
from tests.learning.policy_gradient.test_impala import ACTIONS, OBS, B, T, networks, unrolls


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
    with without_numpy():
        expected = layers.outputs(rows)  # before the network in numpy exists, which would be used again
    found = layers.outputs(rows)
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
