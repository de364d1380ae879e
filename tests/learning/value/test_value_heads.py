"""Layers and heads of value networks in float64: compared with loops, gradients with autograd."""

import math

import pytest
import torch
from torch import nn

from interreplay.learning.value.implicit import COSINES, Implicit, ImplicitLayers
from interreplay.learning.value.streams import NoisyLinear, OneStream, Streams
from interreplay.learning.value.value_heads import Categorical, Mean, Quantiles
from tests.learning.batches import rng

pytestmark = pytest.mark.usefixtures("float64")


HEADS = {
    "mean": lambda: Mean(0.7),
    "square": lambda: Mean(None),
    "categorical": lambda: Categorical(7, -3.0, 2.0),
    "quantiles": lambda: Quantiles(5, kappa=0.4),
}


def rows(head, seed=0, n=40):
    g = torch.Generator().manual_seed(seed)
    following, rewards = torch.randn(n, head.numbers, generator=g), 2 * torch.randn(n, generator=g)
    return following, rewards, 0.9 * (torch.rand(n, generator=g) < 0.7)


def naive_projection(head, following, rewards, discounts):
    """m_i = Σ_j [1 − |clip(r + γ z_j) − z_i| / Δz]₀¹ p_j, one number at a time."""
    p, n = following.softmax(dim=-1), head.numbers
    gap = (head.high - head.low) / (n - 1)
    mass = torch.zeros(len(p), n)
    for row in range(len(p)):
        for i in range(n):
            for j in range(n):
                z_i, z_j = head.low + i * gap, head.low + j * gap
                place = min(max(float(rewards[row] + discounts[row] * z_j), head.low), head.high)
                mass[row, i] += max(0.0, 1 - abs(place - z_i) / gap) * p[row, j]
    return mass


@pytest.mark.parametrize("reward", [-100.0, -10.0, -9.0, -0.4, 0.0, 1.0, 3.3, 9.9999, 10.0, 100.0])
@pytest.mark.parametrize("discount", [0.0, 0.99, 1.0])
def test_mass_is_conserved_on_atoms_between_them_and_at_both_bounds(reward, discount):
    head = Categorical(21, -10.0, 10.0)
    following = torch.randn(2, 21, generator=torch.Generator().manual_seed(3))
    given = following, torch.full((2,), reward), torch.full((2,), discount)
    mass = head.target(*given)
    assert (mass >= 0).all()
    torch.testing.assert_close(mass.sum(dim=-1), torch.ones(2), rtol=0, atol=1e-14)
    torch.testing.assert_close(mass, naive_projection(head, *given), rtol=0, atol=1e-11)


def test_mass_is_conserved_in_float32():
    torch.set_default_dtype(torch.float32)
    head = Categorical(51, -10.0, 10.0)
    mass = head.target(torch.randn(5_000, 51), 20 * torch.randn(5_000), torch.full((5_000,), 0.99))
    assert (mass.sum(dim=-1) - 1).abs().max() < 1e-5 and mass.min() >= 0


def test_the_value_of_a_distribution_is_its_mean_not_its_mode():
    head = Categorical(3, -1.0, 3.0)
    outputs = torch.log(torch.tensor([[0.45, 0.1, 0.45], [0.0001, 0.9998, 0.0001], [0.5, 0.4999, 0.0001]]))
    torch.testing.assert_close(head.values(outputs), torch.tensor([1.0, 1.0, -0.5 + 0.4999 + 0.0003]))
    # The first action's likeliest returns are as low as high, the third's mode is the lowest one.
    assert head.values(torch.stack([outputs[2], outputs[0]])).argmax() == 1
    torch.testing.assert_close(Quantiles(3).values(torch.tensor([[0.0, 1.0, 5.0]])), torch.tensor([2.0]))


def defined_losses(head, chosen, target):
    """Return the losses by definition, differentiated by autograd."""
    if isinstance(head, Quantiles):
        pairs = target.unsqueeze(1) - chosen.unsqueeze(2)  # (n, predictions, targets)
        weights = (head.levels.unsqueeze(-1) - (pairs.detach() < 0).to(pairs.dtype)).abs()
        huber = nn.functional.huber_loss(pairs, torch.zeros_like(pairs), reduction="none", delta=head.kappa)
        return (weights * huber).mean(dim=2).sum(dim=1) / head.kappa
    if isinstance(head, Categorical):
        return -(target * chosen.softmax(dim=-1).log()).sum(dim=-1)
    errors = (chosen - target).squeeze(-1)
    if head.huber_delta is None:
        return 0.5 * errors.square()
    beyond = errors.abs().clamp(min=head.huber_delta) - head.huber_delta
    return 0.5 * errors.square() - 0.5 * beyond.square()


@pytest.mark.parametrize("name", HEADS)
def test_losses_and_gradients_are_those_of_their_definitions(name):
    head = HEADS[name]()
    target = head.target(*rows(head))
    chosen = torch.randn(40, head.numbers, generator=torch.Generator().manual_seed(1), requires_grad=True)
    weights = torch.rand(40)
    expected, found = defined_losses(head, chosen, target), head.compare(chosen, target).losses
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad((weights * losses).sum(), chosen)[0] for losses in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_sorted_sums_are_pairs_also_in_float32_and_where_targets_are_equal():
    torch.set_default_dtype(torch.float32)
    head, g = Quantiles(200), torch.Generator().manual_seed(0)
    for scale, shift in ((0.1, 0.0), (1.0, 50.0), (30.0, -1_000.0)):
        chosen, target = (scale * torch.randn(8, 200, generator=g) + shift for _ in range(2))
        target[:, ::2] = target[:, 1::2]
        target[0], chosen[1] = shift, target[1]
        chosen.requires_grad_()
        expected, found = defined_losses(head, chosen, target), head.compare(chosen, target).losses
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        gradients = [torch.autograd.grad(losses.sum(), chosen)[0] for losses in (found, expected)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", HEADS)
def test_targets_of_ended_episodes_are_rewards(name):
    head = HEADS[name]()
    following, rewards, _ = rows(head)
    target = head.target(following, rewards.clamp(-3, 2), torch.zeros(40))
    mean = target @ head.support if name == "categorical" else target.mean(dim=-1)
    torch.testing.assert_close(mean, rewards.clamp(-3, 2))


def test_priorities_vanish_at_the_optimum():
    """A cross entropy would not: it is the target's entropy there."""
    head = Categorical(7, -3.0, 2.0)
    target = head.target(*rows(head))
    optimum = target.log().clamp(min=-800.0)
    assert head.compare(optimum, target).errors.abs().max() < 1e-12
    assert head.compare(optimum, target).losses.mean() > 0.1
    assert (head.compare(torch.randn(40, 7), target).errors > 0).all()
    certain = torch.full((1, 5), 2.0)
    assert Quantiles(5).compare(certain, certain).errors == 0 == Mean().compare(certain[:, :1], certain[:, :1]).errors


INPUTS = 5
ACTIONS = 3
NUMBERS = 4
N = 16


def obs(n=N):
    return torch.randn(n, INPUTS, generator=rng(5))


def test_advantages_are_centered_over_actions_for_each_row_and_number():
    layers = Streams(INPUTS, ACTIONS, NUMBERS, (8, 6))
    shared = obs().matmul(layers.shared[0].weight.T).add(layers.shared[0].bias).relu()
    streams = zip(layers.hidden, layers.last, strict=True)
    value, advantage = (torch.relu(shared @ h.weight.T + h.bias) @ last.weight.T + last.bias for h, last in streams)
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
    start = 0.5 / math.sqrt(INPUTS)
    assert torch.all(layer.weight_sigma == start) and torch.all(layer.bias_sigma == start)
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


def test_streams_without_dueling_or_noise_are_one_network():
    plain, one = Streams(INPUTS, ACTIONS, NUMBERS, (8, 6), dueling=False), OneStream(INPUTS, ACTIONS, NUMBERS, (8, 6))
    with torch.no_grad():
        layers = [*plain.shared, *plain.hidden, *plain.last]
        for layer, weight, bias in zip(layers, one.body.weights, one.body.biases, strict=True):
            weight[0], bias[0, 0] = layer.weight.T, layer.bias
    torch.testing.assert_close(plain.outputs(obs()), one.outputs(obs()))


ROWS = 6
K = 5


def test_implicit_quantiles_have_fractions_per_row_in_place_of_levels():
    head, plain = Implicit(K, kappa=0.4), Quantiles(K, kappa=0.4)
    g = torch.Generator().manual_seed(0)
    quantiles, following = torch.randn(ROWS, K, generator=g), 2 * torch.randn(ROWS, K, generator=g)
    rewards, discounts = torch.randn(ROWS, generator=g), torch.rand(ROWS, generator=g)
    plain.levels = torch.rand(ROWS, K, generator=g)
    chosen = torch.cat([quantiles, plain.levels], 1)
    target = head.target(torch.cat([following, torch.rand(ROWS, K, generator=g)], 1), rewards, discounts)
    expected = defined_losses(plain, quantiles, plain.target(following, rewards, discounts))
    torch.testing.assert_close(head.compare(chosen, target).losses, expected, rtol=0, atol=1e-12)
    assert torch.equal(head.values(chosen), plain.values(quantiles))


def test_a_mean_over_views_with_other_fractions_keeps_the_distribution():
    head = Implicit(K)
    quantiles, fractions = torch.randn(ROWS, K), torch.rand(ROWS, K)
    views = [torch.cat([quantiles[:, order], fractions], 1) for order in (torch.randperm(K), torch.randperm(K))]
    target = sum(head.target(view, torch.ones(ROWS), torch.full((ROWS,), 0.9)) for view in views) / 2
    torch.testing.assert_close(target[:, :K], 1 + 0.9 * quantiles.sort(dim=-1).values)


def test_the_layers_are_their_formula():
    layers = ImplicitLayers(3, 2, K, (7, 4))
    rows = torch.randn(ROWS, 3)
    found = layers.outputs(rows, rng())
    fractions = found[:, 0, K:].detach()
    assert found.shape == (ROWS, 2, 2 * K)
    for row in range(ROWS):
        features = torch.relu(layers.shared[0](rows[row]))
        for k in range(K):
            cosines = torch.tensor([math.cos(math.pi * i * float(fractions[row, k])) for i in range(COSINES)])
            mixed = features * torch.relu(layers.embedding(cosines))
            expected = layers.last(torch.relu(layers.hidden(mixed)))
            torch.testing.assert_close(found[row, :, k], expected, rtol=0, atol=1e-12)
            assert (found[row, :, K + k] == fractions[row, k]).all()
    plain = layers.outputs(rows)[0, 0, K:]
    torch.testing.assert_close(plain, (torch.arange(K) + 0.5) / K)


def test_a_pass_draws_uniform_fractions_per_row():
    layers = ImplicitLayers(3, 2, 64, (8,))
    drawn = layers.outputs(torch.zeros(200, 3), layers.draw_noise(torch.Generator().manual_seed(0)))[:, 0, 64:]
    counts = torch.histc(drawn, 10, 0, 1) / drawn.numel()
    assert (counts - 0.1).abs().max() < 0.01 and len(drawn[:, 0].unique()) == 200
