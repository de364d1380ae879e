"""Stacked and residual networks and the squashed Gaussian: values and gradients against plain PyTorch in float64."""

import copy
import gc
import math
import pickle
import weakref

import pytest
import torch

from interreplay.learning.networks.distributions import sample_squashed_gaussian
from interreplay.learning.networks.layers import BatchedMLP
from interreplay.learning.networks.residual_layers import ResidualGaussian, ResidualMLP
from tests.learning.plain_torch import (
    assert_bfloat16_is_close,
    assert_plain_outputs_and_gradients,
    plain_outputs,
    plain_sample,
    random_float64,
)

ROWS, SIZES, COUNT = 7, (4, 6, 5, 1), 3


def stacked(activation="relu", **options):
    """Return networks in float64, with random γ and β of normalized hidden layers."""
    torch.manual_seed(0)
    layers = BatchedMLP(COUNT, SIZES, **options).double()
    layers.activation = activation
    for parameter in (*layers.scales, *layers.shifts):
        parameter.data += 0.3 * torch.randn_like(parameter)
    return layers


BOTH = {"layer_norm": True, "dropout": 0.3}
OPTIONS = [{}, {"activation": "tanh"}, {"layer_norm": True}, {"dropout": 0.3}, BOTH, BOTH | {"activation": "tanh"}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("networks", [None, [2, 0], [1]], ids=str)
def test_outputs_and_gradients_are_those_of_plain_networks(options, networks, grouping):
    layers = stacked(**options)
    x = random_float64(ROWS, SIZES[0]).requires_grad_()
    dropped = layers.draw_dropped(x, torch.Generator().manual_seed(1), COUNT if networks is None else len(networks))
    assert_plain_outputs_and_gradients(layers, x, dropped, networks)


def test_a_second_derivative_is_an_error():
    x = random_float64(ROWS, SIZES[0]).requires_grad_()
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(stacked().outputs(x).sum(), x, create_graph=True)


def test_activations_are_freed_without_the_garbage_collector():
    """A context that kept the outputs would be part of a reference cycle and keep all activations alive."""
    gc.collect()
    gc.disable()
    try:
        outputs = stacked().outputs(random_float64(ROWS, SIZES[0]))
        outputs.sum().backward()
        context = weakref.ref(outputs.grad_fn)
        del outputs
        assert context() is None
    finally:
        gc.enable()


def test_without_any_gradient_rows_get_zeros(grouping):
    x = random_float64(ROWS, SIZES[0]).requires_grad_()
    (0.0 * stacked().outputs(x, frozen=True)).sum().backward()
    assert x.grad.shape == x.shape and not x.grad.any()


@pytest.mark.parametrize("change", ["copied", "moved", "loaded", "pickled"])
def test_views_follow_the_parameters(change, grouping):
    torch.manual_seed(0)
    layers, x = BatchedMLP(2, SIZES), torch.randn(ROWS, SIZES[0])
    gradients = torch.randn(2, ROWS, 1)
    layers.outputs(x).backward(gradients)
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
    found, expected = layers.outputs(x), plain_outputs(layers, x)
    torch.testing.assert_close(found, expected)
    required = list(layers.parameters())
    gradients = gradients.to(x)
    grads = [torch.autograd.grad(outputs, required, gradients) for outputs in (found, expected)]
    torch.testing.assert_close(*grads)


def test_gradients_that_are_kept_are_not_overwritten(grouping):
    """Their memory is reused only if no tensor shares it: neither a gradient nor a view of a gradient."""
    layers, x = stacked(), random_float64(ROWS, SIZES[0])
    required = list(layers.parameters())

    def gradients(factor):
        return torch.autograd.grad((factor * layers.outputs(x)).sum(), required)

    addresses = {gradients(1.0)[0].data_ptr() for _ in range(3)}
    assert len(addresses) == 1
    kept = gradients(1.0)
    before = [gradient.clone() for gradient in kept]
    gradients(2.0)
    assert all(map(torch.equal, kept, before))
    kept = [gradient.detach() for gradient in kept]
    gradients(3.0)
    assert all(map(torch.equal, kept, before))
    view = kept[0][0]
    del kept
    gradients(4.0)
    assert torch.equal(view, before[0][0])


def test_two_passes_in_one_graph_add_up(grouping):
    layers, x, y = stacked(), random_float64(ROWS, SIZES[0]), random_float64(ROWS, SIZES[0], seed=1)
    required = list(layers.parameters())
    found = torch.autograd.grad((layers.outputs(x) * layers.outputs(y)).sum(), required)
    expected = torch.autograd.grad((plain_outputs(layers, x) * plain_outputs(layers, y)).sum(), required)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("frozen", [True, False])
def test_parameters_that_change_before_the_backward_pass_are_an_error(frozen, grouping):
    layers, x = stacked(), random_float64(ROWS, SIZES[0]).requires_grad_()
    loss = layers.outputs(x, frozen=frozen).sum()
    with torch.no_grad():
        layers.weights[1].add_(1.0)
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


@pytest.mark.parametrize("sizes", [(4, 64, 64, 1), (4, 64, 64, 64, 6), (4, 64, 1)])
def test_bfloat16_products_stay_near_float32(grouping, sizes):
    torch.manual_seed(0)
    exact, rough = assert_bfloat16_is_close(BatchedMLP(2, sizes), torch.randn(ROWS, 4, requires_grad=True))
    assert torch.equal(rough, exact) == (len(sizes) == 3)


def test_the_squashed_gaussian_has_the_gradients_of_autograd():
    given, noise = random_float64(ROWS, 6), random_float64(ROWS, 3, seed=1)
    given[0, 3:] = torch.tensor([3.0, -25.0, 0.0])  # two of these log standard deviations are clamped
    given.requires_grad_()
    gradients = [random_float64(ROWS, 3, seed=2), random_float64(ROWS, seed=3)]
    found, expected = sample_squashed_gaussian(given, noise), plain_sample(given, noise)
    torch.testing.assert_close(found, expected)
    (ours,), (theirs,) = (torch.autograd.grad(list(each), [given], gradients) for each in (found, expected))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_density_stays_finite_far_out(dtype):
    given = torch.tensor([[60.0, -60.0, 0.0, 0.0]], dtype=dtype, requires_grad=True)
    actions, log_probs = sample_squashed_gaussian(given, random_float64(1, 2).to(dtype))
    log_probs.sum().backward()
    assert torch.isfinite(log_probs).all() and torch.isfinite(given.grad).all()
    assert actions.abs().max() <= 1


INPUTS = 4
WIDTH = 6


def networks(blocks=2, activation="relu", outputs=1):
    """Residual networks in float64, with random γ, β and biases."""
    torch.manual_seed(0)
    made = ResidualMLP(COUNT, INPUTS, WIDTH, blocks, outputs).double()
    made.activation = activation
    for parameter in (*made.scales, *made.shifts, *made.biases):
        parameter.data += 0.3 * torch.randn_like(parameter)
    return made


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("chosen", [None, [2, 0], [1]], ids=str)
def test_residual_networks_are_those_of_plain_layers(chosen, blocks, activation, grouping):
    x = random_float64(ROWS, INPUTS).requires_grad_()
    assert_plain_outputs_and_gradients(networks(blocks, activation), x, None, chosen)


@pytest.mark.parametrize(("width", "parameters"), [(512, 4_215_297), (128, 267_393)])
def test_the_published_number_of_parameters(width, parameters):
    critic = ResidualMLP(1, 23, width, 2, 1)
    assert sum(parameter.numel() for parameter in critic.parameters()) == parameters


def test_the_start_is_orthogonal_and_he_normal():
    torch.manual_seed(0)
    made = ResidualMLP(2, 16, 64, 1, 3)
    for network in range(2):
        first, inner, outer, last = (weight[network].detach() for weight in made.weights)
        torch.testing.assert_close(first @ first.T, torch.eye(16), atol=1e-5, rtol=0)
        torch.testing.assert_close(last.T @ last, torch.eye(3), atol=1e-5, rtol=0)
        assert float(inner.std()) == pytest.approx(math.sqrt(2 / 64), rel=0.03)
        assert float(outer.std()) == pytest.approx(math.sqrt(2 / 256), rel=0.03)
    assert not torch.equal(made.weights[0][0], made.weights[0][1])
    assert not any(bias.any() for bias in (*made.biases, *made.shifts))
    before = copy.deepcopy(made)
    made.reset(torch.Generator().manual_seed(3))
    drawn = copy.deepcopy(made)
    made.reset(torch.Generator().manual_seed(3))
    assert all(map(torch.equal, made.parameters(), drawn.parameters()))
    assert not torch.equal(before.weights[1], made.weights[1])


def test_the_standard_deviation_is_bounded_smoothly():
    policy = ResidualGaussian(1, INPUTS, 8, 1, 4).double()
    x = random_float64(ROWS, INPUTS)
    mean, log_std = policy(x).chunk(2, dim=1)
    plain_mean, raw = plain_outputs(policy, x)[0].chunk(2, dim=1)
    torch.testing.assert_close(mean, plain_mean)
    torch.testing.assert_close(log_std, -10.0 + 6.0 * (1.0 + torch.tanh(raw)))
    with torch.no_grad():
        policy.biases[-1][..., 2:] = torch.tensor([1e3, -1e3])
    torch.testing.assert_close(policy(x)[:, 2:], torch.tensor([2.0, -10.0], dtype=torch.float64).expand(ROWS, 2))


def test_bfloat16_products_of_residual_networks_stay_near_float32(grouping):
    torch.manual_seed(0)
    assert_bfloat16_is_close(ResidualMLP(2, 4, 64, 2, 1), torch.randn(ROWS, 4, requires_grad=True))
