"""The functions with a backward pass of their own, against finite differences and plain autograd."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.distributions import Normal

from interreplay.learning import batched_layers
from interreplay.learning.batched_layers import BatchedLayers
from interreplay.learning.squashed_gaussian import SquashedGaussian

ROWS, SIZES, COUNT = 7, (4, 6, 5, 1), 3


def float64(*shape, seed=0, **settings):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64, **settings)


def parameters():
    weights = [float64(COUNT, i, o, seed=i) for i, o in zip(SIZES[:-1], SIZES[1:], strict=True)]
    biases = [float64(COUNT, 1, o, seed=10 + o) for o in SIZES[1:]]
    return [p.requires_grad_() for p in (*weights, *biases)]


def plain(x, weights, biases):
    outputs = []
    for j in range(COUNT):
        h = x
        for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
            h = h @ w[j] + b[j]
            h = h.clamp(min=0) if i < len(weights) - 1 else h
        outputs.append(h[:, 0])
    return torch.stack(outputs)


def q_values(x, given, learns=True):
    return BatchedLayers.apply(x, learns, *given).squeeze(-1)


@pytest.fixture(params=["one after the other", "all at once"])
def grouping(request, monkeypatch):
    if request.param == "all at once":
        monkeypatch.setattr(batched_layers, "groups", lambda count, device: [slice(None)])


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
    x, given = float64(ROWS, SIZES[0]).requires_grad_(), parameters()
    gradients = float64(COUNT, ROWS, seed=5)
    both = torch.autograd.grad(q_values(x, given), [x, *given], gradients)
    (of_rows,) = torch.autograd.grad(q_values(x, given, learns=False), [x], gradients)
    torch.testing.assert_close(of_rows, both[0])
    of_parameters = torch.autograd.grad(q_values(x.detach(), given), given, gradients)
    for alone, together in zip(of_parameters, both[1:], strict=True):
        torch.testing.assert_close(alone, together)


def test_the_minimum_sends_each_row_through_one_network(grouping):
    x, given = float64(ROWS, SIZES[0]).requires_grad_(), [p.detach() for p in parameters()]
    (ours,) = torch.autograd.grad(q_values(x, given).amin(dim=0).sum(), [x])
    (theirs,) = torch.autograd.grad(plain(x, given[:3], given[3:]).amin(dim=0).sum(), [x])
    torch.testing.assert_close(ours, theirs)


def test_without_any_gradient_rows_get_zeros(grouping):
    x, given = float64(ROWS, SIZES[0]).requires_grad_(), [p.detach() for p in parameters()]
    (ours,) = torch.autograd.grad(q_values(x, given), [x], torch.zeros(COUNT, ROWS).double())
    assert ours.shape == x.shape and not ours.any()


def test_gradcheck_of_the_layers():
    assert gradcheck(lambda x, *given: q_values(x, given), (float64(ROWS, SIZES[0]).requires_grad_(), *parameters()))


def test_gradcheck_of_the_squashed_gaussian():
    given, noise = float64(ROWS, 6).requires_grad_(), float64(ROWS, 3, seed=1)
    assert gradcheck(lambda p: SquashedGaussian.apply(p, noise), (given,))


def test_squashed_gaussian_is_the_transformed_normal():
    given, noise = 0.5 * float64(ROWS, 6), float64(ROWS, 3, seed=1)
    actions, log_probs = SquashedGaussian.apply(given, noise)
    mean, log_std = given.chunk(2, dim=-1)
    raw = mean + log_std.exp() * noise
    torch.testing.assert_close(actions, raw.tanh())
    expected = Normal(mean, log_std.exp()).log_prob(raw) - torch.log(1 - raw.tanh().square())
    torch.testing.assert_close(log_probs, expected.sum(dim=-1))


def test_a_clamped_standard_deviation_gets_no_gradient():
    given = torch.tensor([[0.3, -0.2, 3.0, -25.0]], dtype=torch.float64).requires_grad_()
    actions, log_probs = SquashedGaussian.apply(given, float64(1, 2))
    (gradient,) = torch.autograd.grad(log_probs.sum() + actions.sum(), [given])
    assert gradient[0, :2].all() and not gradient[0, 2:].any()


def test_density_stays_finite_far_out():
    given = torch.tensor([[60.0, -60.0, 0.0, 0.0]], dtype=torch.float64).requires_grad_()
    actions, log_probs = SquashedGaussian.apply(given, float64(1, 2))
    (gradient,) = torch.autograd.grad(log_probs.sum(), [given])
    assert torch.isfinite(log_probs).all() and torch.isfinite(gradient).all() and actions.abs().max() <= 1
