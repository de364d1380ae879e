"""Layers of value networks in float64: dueling streams, noise, and gradients compared with autograd."""

import copy
import math

import pytest
import torch

from interreplay.learning.value.streams import NoisyLinear, OneStream, Streams
from tests.learning.batches import rng

INPUTS, ACTIONS, NUMBERS, N = 5, 3, 4, 16


pytestmark = pytest.mark.usefixtures("float64")


def obs(n=N):
    return torch.randn(n, INPUTS, generator=rng(5))


def test_advantages_are_centered_over_actions_for_each_row_and_number():
    layers = Streams(INPUTS, ACTIONS, NUMBERS, (8, 6))
    shared = obs().matmul(layers.shared[0].weight.T).add(layers.shared[0].bias).relu()
    value, advantage = (
        torch.relu(shared @ h.weight.T + h.bias) @ last.weight.T + last.bias
        for h, last in zip(layers.hidden, layers.last, strict=True)
    )
    outputs = layers.outputs(obs())
    assert outputs.shape == (N, ACTIONS, NUMBERS)
    for row in range(N):
        for number in range(NUMBERS):
            a = [advantage[row, action * NUMBERS + number] for action in range(ACTIONS)]
            for action in range(ACTIONS):
                expected = value[row, number] + a[action] - sum(a) / ACTIONS
                torch.testing.assert_close(outputs[row, action, number], expected)
    # The mean over actions is the value of each row, independent of other rows of the batch.
    torch.testing.assert_close(outputs.mean(dim=1), value)
    torch.testing.assert_close(layers.outputs(obs()[:1]), outputs[:1])


def naive_noisy(layer, rows, noise):
    """Return the layer's outputs with explicit noise in all weights."""
    of_inputs, of_outputs = noise
    weights, biases = layer.weight.detach().clone(), layer.bias.detach().clone()
    for o in range(len(biases)):
        biases[o] += layer.bias_sigma[o] * of_outputs[o]
        for i in range(weights.shape[1]):
            weights[o, i] += layer.weight_sigma[o, i] * of_outputs[o] * of_inputs[i]
    return rows @ weights.T + biases


def test_a_noisy_layer_has_factorized_noise_on_weights_and_biases():
    layer = NoisyLinear(INPUTS, 4)
    assert torch.all(layer.weight_sigma == 0.5 / math.sqrt(INPUTS)) and torch.all(
        layer.bias_sigma == 0.5 / math.sqrt(INPUTS)
    )
    assert layer.weight.abs().max() <= 1 / math.sqrt(INPUTS)
    noise = layer.draw(rng())
    drawn = torch.randn(INPUTS + 4, generator=rng())
    torch.testing.assert_close(torch.cat(noise), drawn.sign() * drawn.abs().sqrt())
    torch.testing.assert_close(layer(obs(), noise), naive_noisy(layer, obs(), noise))
    layer(obs(), noise).sum().backward()
    torch.testing.assert_close(layer.weight.grad, obs().sum(dim=0).expand(4, INPUTS))
    torch.testing.assert_close(layer.weight_sigma.grad, layer.weight.grad * torch.outer(noise[1], noise[0]))
    torch.testing.assert_close(layer.bias_sigma.grad, N * noise[1])


@pytest.mark.parametrize("dueling", [False, True])
def test_without_noise_and_with_noise_of_size_0_it_is_the_plain_network(dueling):
    noisy = Streams(INPUTS, ACTIONS, NUMBERS, (8, 6), dueling, sigma0=0.5)
    plain = Streams(INPUTS, ACTIONS, NUMBERS, (8, 6), dueling)
    plain.load_state_dict({k: v for k, v in noisy.state_dict().items() if "sigma" not in k})
    noise = noisy.draw_noise(rng())
    assert torch.equal(noisy.outputs(obs()), plain.outputs(obs()))
    assert not torch.allclose(noisy.outputs(obs(), noise), plain.outputs(obs()))
    with torch.no_grad():
        for name, parameter in noisy.named_parameters():
            if "sigma" in name:
                parameter.zero_()
    torch.testing.assert_close(noisy.outputs(obs(), noise), plain.outputs(obs()), rtol=0, atol=1e-15)


def test_noise_is_redrawn_and_not_stored():
    layers, generator = Streams(INPUTS, ACTIONS, NUMBERS, (8, 6), sigma0=0.5), rng()
    before = copy.deepcopy(layers.state_dict())
    one, other = (layers.outputs(obs(), layers.draw_noise(generator)) for _ in range(2))
    assert not torch.allclose(one, other)
    assert torch.equal(one, layers.outputs(obs(), layers.draw_noise(rng())))
    assert layers.state_dict().keys() == before.keys() and all(
        torch.equal(v, before[k]) for k, v in layers.state_dict().items()
    )
    assert torch.equal(layers.outputs(obs()), layers.outputs(obs()))


def test_streams_without_dueling_or_noise_are_one_network():
    plain, one = Streams(INPUTS, ACTIONS, NUMBERS, (8, 6), dueling=False), OneStream(INPUTS, ACTIONS, NUMBERS, (8, 6))
    with torch.no_grad():
        for layer, weight, bias in zip(
            [*plain.shared, *plain.hidden, *plain.last], one.body.weights, one.body.biases, strict=True
        ):
            weight[0], bias[0, 0] = layer.weight.T, layer.bias
    torch.testing.assert_close(plain.outputs(obs()), one.outputs(obs()))
