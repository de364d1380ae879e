"""Orthogonal initial weights: matrices, gains, and parameters that do not change."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from interreplay.learning.architectures import ARCHITECTURES, assemble, build_encoder
from interreplay.learning.policy_gradient.policy_value import GAIN, POLICY_GAIN

PIXELS = gym.spaces.Box(0, 255, (4, 36, 36), np.uint8)
MODEL = {
    "hiddens": (16, 12),
    "matrix_dtype": "float32",
    "activation": "relu",
    "normalize_observations": False,
    "encoder": "shallow",
    "lstm_cells": None,
    "shared_layers": True,
    "free_log_std": True,
    "initial_log_std": 0.0,
}


def networks(actions=3, **changes):
    model = MODEL | changes
    encoder, width = build_encoder(PIXELS, model)
    made = ARCHITECTURES["IMPALA"].make(width, gym.spaces.Discrete(actions), model, False)
    return assemble(made, encoder, model)


def assert_orthogonal(weights: torch.Tensor, gain: float) -> None:
    """Assert that the rows of a wide matrix, or the columns of a tall one, are orthogonal and of one length."""
    wide = weights if weights.shape[0] <= weights.shape[1] else weights.T
    torch.testing.assert_close(wide @ wide.T, gain**2 * torch.eye(len(wide)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
def test_convolutions_and_layers_start_orthogonal(shared):
    made = networks(initial_weights="orthogonal", shared_layers=shared)
    convolutions = [part for part in made.encoder.modules() if isinstance(part, torch.nn.Conv2d)]
    assert len(convolutions) == 2
    for part in convolutions:
        assert_orthogonal(part.weight.flatten(1), GAIN)
        assert not part.bias.any()
    bodies = made.actor.layers.bodies
    assert len(bodies) == 1 if shared else 2
    for body in bodies:
        for weight in body.weights[:-1]:
            assert_orthogonal(weight[0], GAIN)
        assert not any(bias.any() for bias in body.biases)


def test_the_last_layers_have_different_gains():
    shared = networks(initial_weights="orthogonal").actor.layers.bodies[0].weights[-1][0]
    made = networks(initial_weights="orthogonal", shared_layers=False)
    apart = [body.weights[-1][0] for body in made.actor.layers.bodies]
    for policy, value in ((shared[:, :3], shared[:, 3:]), apart):
        assert policy.shape == (12, 3) and value.shape == (12, 1)
        assert_orthogonal(policy, POLICY_GAIN)
        assert_orthogonal(value, 1.0)


def test_layers_without_biases_start_orthogonal():
    convolution = {"layer": "Conv2d", "out_channels": 3, "kernel_size": 9, "stride": 5, "bias": False}
    layers = [{"layer": "Linear", "out_features": 8, "bias": False}, "ReLU", "Linear"]
    listed = {"image_features": [convolution, "ReLU", "Flatten"], "network": {"actor": layers, "critic": layers}}
    made = networks(initial_weights="orthogonal", **listed)
    assert_orthogonal(made.encoder.layers.layers[0].weight.flatten(1), GAIN)
    for body, gain in zip(made.actor.layers.bodies, (POLICY_GAIN, 1.0), strict=True):
        first, _, last = body.layers
        assert_orthogonal(first.weight, GAIN)
        assert_orthogonal(last.weight, gain)
        assert not last.bias.any()


def test_checkpoints_from_before_the_setting_mean_uniform():
    torch.manual_seed(0)
    named = networks(initial_weights="uniform").state_dict()
    torch.manual_seed(0)
    before = networks().state_dict()
    assert all(torch.equal(named[name], before[name]) for name in before)
