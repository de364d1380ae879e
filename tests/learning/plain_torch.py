"""The primitives of `interreplay.learning.networks` in plain PyTorch, and assertions that compare with them."""

import contextlib

import pytest
import torch
from torch import nn

from interreplay.learning.networks.distributions import LOG_STD_RANGE
from interreplay.learning.networks.residual_layers import ResidualMLP
from interreplay.learning.networks.small_layers import SMALL


def random_float64(*shape, seed=0):
    """Return normally distributed float64 numbers of a seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def plain_network(layers, network, x):
    """Return the outputs of one network of stacked linear layers with ReLU between them, one layer at a time."""
    for i, (weight, bias) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        x = x @ weight[network] + bias[network]
        if i < len(layers.weights) - 1:
            x = x.clamp(min=0)
    return x


def plain_outputs(self, rows, dropped=None, networks=None):
    """Outputs of `BatchedMLP`: one network and one layer at a time, differentiated by autograd."""
    if isinstance(self, ResidualMLP):
        return plain_residual_outputs(self, rows, networks)
    found = []
    for i, network in enumerate(range(self.count) if networks is None else networks):
        values = rows
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = values @ weight[network] + bias[network]
            if layer == len(self.weights) - 1:
                break
            if dropped is not None:
                values = values * kept_units(dropped[i][layer], values) / (1.0 - self.dropout)
            if len(self.scales):
                scale, shift = self.scales[layer][network, 0], self.shifts[layer][network, 0]
                values = nn.functional.layer_norm(values, values.shape[-1:], scale, shift)
            values = getattr(torch, self.activation)(values)
        found.append(values)
    return torch.stack(found)


def plain_residual_outputs(self, rows, networks):
    """Outputs of `ResidualMLP`: one network and one layer at a time, differentiated by autograd."""
    found = []
    for network in range(self.count) if networks is None else networks:
        weights, biases, scales, shifts = ([values[network] for values in part] for part in self.parts)
        x = rows @ weights[0] + biases[0]
        for block in range(len(scales) - 1):
            normalized = nn.functional.layer_norm(x, x.shape[-1:], scales[block][0], shifts[block][0])
            hidden = getattr(torch, self.activation)(normalized @ weights[1 + 2 * block] + biases[1 + 2 * block])
            x = x + hidden @ weights[2 + 2 * block] + biases[2 + 2 * block]
        normalized = nn.functional.layer_norm(x, x.shape[-1:], scales[-1][0], shifts[-1][0])
        found.append(normalized @ weights[-1] + biases[-1])
    return torch.stack(found)


def kept_units(dropped, values):
    """A mask ``(n, width)``: 1 where a unit is kept, 0 where it is dropped."""
    kept = torch.ones_like(values)
    if dropped.dtype is torch.bool:
        return kept.masked_fill(dropped, 0.0)
    return kept.flatten().index_fill(0, dropped, 0.0).view_as(values)


def assert_plain_outputs_and_gradients(layers, x, dropped, networks):
    """Compare the outputs of the networks and all gradients, of frozen networks as well, with those of autograd."""
    expected = plain_outputs(layers, x, dropped, networks)
    gradients = random_float64(*expected.shape, seed=5)
    gradients[0, :3] = 0.0  # rows without a gradient are skipped
    found = layers.outputs(x, dropped, networks)
    torch.testing.assert_close(found, expected)
    with torch.no_grad():
        torch.testing.assert_close(layers.outputs(x, dropped, networks), expected)
    required = [x, *layers.parameters()]
    plain_gradients = torch.autograd.grad(expected, required, gradients)
    torch.testing.assert_close(torch.autograd.grad(found, required, gradients), plain_gradients)
    frozen = layers.outputs([x[:, :1].detach(), x[:, 1:]], dropped, networks, frozen=True)
    (of_rows,) = torch.autograd.grad(frozen, [x], gradients)
    torch.testing.assert_close(of_rows[:, 1:], plain_gradients[0][:, 1:])


def assert_bfloat16_is_close(layers, x):
    """Assert that outputs and gradients with bfloat16 products are close to float32, and return both outputs."""
    required = [x, *layers.parameters()]
    exact = layers.outputs(x)
    gradients = torch.randn_like(exact)
    exact_gradients = torch.autograd.grad(exact, required, gradients)
    layers.matrix_dtype = torch.bfloat16
    rough = layers.outputs(x)
    assert rough.dtype == torch.float32
    rough_gradients = torch.autograd.grad(rough, required, gradients)
    for ours, theirs in zip([rough, *rough_gradients], [exact, *exact_gradients], strict=True):
        assert (ours - theirs).norm() <= 0.1 * theirs.norm()
    return exact, rough


def plain_sample(parameters, noise):
    """A sample of the squashed Gaussian, differentiated by autograd."""
    mean, log_std = parameters.chunk(2, dim=-1)
    log_std = log_std.clamp(*LOG_STD_RANGE)
    raw = mean + log_std.exp() * noise
    log_probs = torch.distributions.Normal(mean, log_std.exp()).log_prob(raw)
    squash = 2.0 * (nn.functional.softplus(-2.0 * raw) + raw - torch.log(torch.tensor(2.0, dtype=raw.dtype)))
    return torch.tanh(raw), (log_probs + squash).sum(dim=-1)


@contextlib.contextmanager
def without_numpy():
    """Make small networks run in PyTorch, like large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("interreplay.learning.networks.small_layers.SMALL", -1)
        assert SMALL > 0
        yield
