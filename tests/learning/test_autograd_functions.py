"""The passes with gradients of their own, against finite differences and plain autograd."""

import copy
import pickle

import pytest
import torch
from torch.autograd import gradcheck
from torch.distributions import Normal

from interreplay.learning.fast import batched_layers
from interreplay.learning.fast.batched_layers import BatchedLayers, ForwardPass, LayerViews
from interreplay.learning.fast.squashed_gaussian import parameter_gradients
from interreplay.learning.networks import BatchedMLP, Critics
from interreplay.learning.squashed_gaussian import SquashedGaussianSample

ROWS, SIZES, COUNT = 7, (4, 6, 5, 1), 3


def float64(*shape, seed=0, **settings):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64, **settings)


def parameters():
    weights = [float64(COUNT, i, o, seed=i) for i, o in zip(SIZES[:-1], SIZES[1:], strict=True)]
    biases = [float64(COUNT, 1, o, seed=10 + o) for o in SIZES[1:]]
    return [p.requires_grad_() for p in (*weights, *biases)]


def plain(x, weights, biases, count=COUNT):
    outputs = []
    for j in range(count):
        h = x
        for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
            h = h @ w[j] + b[j]
            h = h.clamp(min=0) if i < len(weights) - 1 else h
        outputs.append(h[:, 0])
    return torch.stack(outputs)


def q_values(x, given):
    return BatchedLayers.apply(x, None, "relu", *given).squeeze(-1)


@pytest.fixture(params=["one after the other", "all at once"])
def grouping(request, monkeypatch):
    if request.param == "all at once":
        monkeypatch.setattr(batched_layers, "at_once", lambda device: True)


def test_layers_equal_plain_networks_and_their_gradients(grouping):
    x, given = float64(ROWS, SIZES[0]).requires_grad_(), parameters()
    gradients = float64(COUNT, ROWS, seed=5)
    expected = plain(x, given[:3], given[3:])
    outputs = q_values(x, given)
    torch.testing.assert_close(outputs, expected)
    of_plain = torch.autograd.grad(expected, [x, *given], gradients)
    for ours, theirs in zip(torch.autograd.grad(outputs, [x, *given], gradients), of_plain, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_rows_alone_and_parameters_alone_get_the_same_gradients(grouping):
    x, given = float64(ROWS, SIZES[0]), parameters()
    forward = ForwardPass(x, LayerViews(given[:3], given[3:]))
    torch.testing.assert_close(forward.outputs.squeeze(-1), plain(x, given[:3], given[3:]))
    gradients = float64(COUNT, ROWS, 1, seed=5)
    both, alone = forward.views.empty_like(), forward.views.empty_like()
    of_rows = forward.backward(gradients, both, slice(None))
    torch.testing.assert_close(forward.backward(gradients, columns=slice(None)), of_rows)
    torch.testing.assert_close(forward.backward(gradients, columns=slice(1, 3)), of_rows[:, 1:3])
    assert forward.backward(gradients, alone) is None
    for ours, theirs in zip((*alone.weights, *alone.biases), (*both.weights, *both.biases), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_first_networks_alone(grouping):
    torch.manual_seed(0)
    layers, x = BatchedMLP(3, SIZES), torch.randn(ROWS, SIZES[0])
    torch.testing.assert_close(layers.passes.run(x, networks=[0]).outputs, layers.passes.run(x).outputs[:1])


@pytest.mark.parametrize("change", ["copied", "moved", "loaded", "pickled"])
def test_views_follow_the_parameters(change, grouping):
    torch.manual_seed(0)
    layers, x = BatchedMLP(2, SIZES), torch.randn(ROWS, SIZES[0])
    before, gradients = layers.passes.run(x), torch.randn(2, ROWS, 1)
    layers.passes.learn(before, gradients)
    if change == "copied":
        layers = copy.deepcopy(layers)
    elif change == "moved":
        layers, x = layers.double(), x.double()
    elif change == "pickled":
        layers = pickle.loads(pickle.dumps(layers))
    else:
        layers.load_state_dict({name: 2 * value for name, value in layers.state_dict().items()})
    with torch.no_grad():
        for parameter in layers.parameters():
            parameter.mul_(0.5)
    forward = layers.passes.run(x)
    torch.testing.assert_close(forward.outputs.squeeze(-1), plain(x, layers.weights, layers.biases, 2).detach())
    layers.passes.learn(forward, gradients.to(x))
    expected = torch.autograd.grad(
        plain(x, layers.weights, layers.biases, 2), layers.parameters(), gradients.to(x)[..., 0]
    )
    for parameter, gradient in zip(layers.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_the_minimum_sends_each_row_through_one_network(grouping):
    x, given = float64(ROWS, SIZES[0]).requires_grad_(), [p.detach() for p in parameters()]
    forward = ForwardPass(x.detach(), LayerViews(given[:3], given[3:]))
    lowest = forward.outputs.min(dim=0, keepdim=True).indices
    slopes = torch.zeros_like(forward.outputs).scatter_(0, lowest, 1.0)
    (theirs,) = torch.autograd.grad(plain(x, given[:3], given[3:]).amin(dim=0).sum(), [x])
    torch.testing.assert_close(forward.backward(slopes, columns=slice(None)), theirs)


def test_without_any_gradient_rows_get_zeros(grouping):
    given = [p.detach() for p in parameters()]
    forward = ForwardPass(float64(ROWS, SIZES[0]), LayerViews(given[:3], given[3:]))
    ours = forward.backward(torch.zeros(COUNT, ROWS, 1).double(), columns=slice(None))
    assert ours.shape == (ROWS, SIZES[0]) and not ours.any()


def test_learning_sends_gradients_on_to_whatever_made_the_rows():
    torch.manual_seed(0)
    critics, encoder, x = Critics(2, 3, (8,)).double(), torch.nn.Linear(4, 3).double(), float64(ROWS, 4)
    gradients = float64(2, ROWS, 1, seed=5)
    critics.passes.learn(critics.passes.run(encoder(x)), gradients)
    learned = [encoder.weight, *critics.parameters()]
    expected = torch.autograd.grad(critics(encoder(x)), learned, gradients.squeeze(-1))
    for parameter, gradient in zip(learned, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_gradcheck_of_the_layers():
    assert gradcheck(lambda x, *given: q_values(x, given), (float64(ROWS, SIZES[0]).requires_grad_(), *parameters()))


def test_the_squashed_gaussian_has_the_gradients_of_autograd():
    given, noise = float64(ROWS, 6).requires_grad_(), float64(ROWS, 3, seed=1)
    sample, of_actions, of_log_probs = (
        SquashedGaussianSample(given, noise),
        float64(ROWS, 3, seed=2),
        float64(ROWS, seed=3),
    )
    (theirs,) = torch.autograd.grad([sample.actions, sample.log_probs], [given], [of_actions, of_log_probs])
    torch.testing.assert_close(parameter_gradients(sample, of_actions, of_log_probs), theirs)


def test_squashed_gaussian_is_the_transformed_normal():
    given, noise = 0.5 * float64(ROWS, 6), float64(ROWS, 3, seed=1)
    sample = SquashedGaussianSample(given, noise)
    mean, log_std = given.chunk(2, dim=-1)
    raw = mean + log_std.exp() * noise
    torch.testing.assert_close(sample.actions, raw.tanh())
    expected = Normal(mean, log_std.exp()).log_prob(raw) - torch.log(1 - raw.tanh().square())
    torch.testing.assert_close(sample.log_probs, expected.sum(dim=-1))


def test_a_clamped_standard_deviation_gets_no_gradient():
    sample = SquashedGaussianSample(torch.tensor([[0.3, -0.2, 3.0, -25.0]], dtype=torch.float64), float64(1, 2))
    gradient = parameter_gradients(sample, torch.ones(1, 2).double(), torch.ones(1).double())
    assert gradient[0, :2].all() and not gradient[0, 2:].any()


def test_density_stays_finite_far_out():
    sample = SquashedGaussianSample(torch.tensor([[60.0, -60.0, 0.0, 0.0]], dtype=torch.float64), float64(1, 2))
    gradient = parameter_gradients(sample, torch.zeros(1, 2).double(), torch.ones(1).double())
    assert torch.isfinite(sample.log_probs).all() and torch.isfinite(gradient).all() and sample.actions.abs().max() <= 1


@pytest.mark.parametrize("sizes", [(4, 64, 64, 1), (4, 64, 64, 64, 6), (4, 64, 1)])
def test_bfloat16_products_stay_near_float32(grouping, sizes):
    torch.manual_seed(0)
    layers, x = BatchedMLP(2, sizes), torch.randn(ROWS, 4)
    gradients = torch.randn(2, ROWS, sizes[-1])
    exact = layers.passes.run(x)
    layers.matrix_dtype = torch.bfloat16
    rough = layers.passes.run(x)
    assert rough.outputs.dtype == torch.float32
    found = [rough.outputs, *gradients_of(rough, gradients)]
    wanted = [exact.outputs, *gradients_of(exact, gradients)]
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours - theirs).norm() <= 0.1 * theirs.norm()
    assert torch.equal(rough.outputs, exact.outputs) == (len(sizes) == 3)


def gradients_of(forward, gradients):
    into = forward.views.empty_like()
    return [forward.backward(gradients, into, slice(None)), *into.weights, *into.biases]


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_by_autograd_outputs_are_those_of_the_passes(dtype):
    torch.manual_seed(0)
    layers, x = BatchedMLP(2, (4, 64, 64, 3)), torch.randn(ROWS, 4).requires_grad_()
    layers.matrix_dtype = dtype
    plain, gradients = layers.outputs(x), torch.randn(2, ROWS, 3)
    torch.testing.assert_close(plain, layers.passes.run(x).outputs)
    wanted = [x, *layers.parameters()]
    ours = torch.autograd.grad(layers.passes.differentiable(x), wanted, gradients)
    for mine, theirs in zip(ours, torch.autograd.grad(plain, wanted, gradients), strict=True):
        assert (mine - theirs).norm() <= (1e-5 if dtype is None else 0.02) * theirs.norm()
