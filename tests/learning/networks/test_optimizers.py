"""Our Adam takes the steps of PyTorch's, fused and in parts, and their states are interchangeable."""

import copy

import pytest
import torch

from interreplay.learning.networks.convolutions import ConvolutionBody
from interreplay.learning.networks.optimizers import FastAdam, FastAdamW


@pytest.mark.parametrize("images", [4, 20], ids=["convolution", "patches"])
@pytest.mark.parametrize("kind", ["minatar", "two layers", "listed"])
def test_convolutions_take_the_steps_of_pytorch_s_adam(kind, images):
    """Gradients of convolutions and their weights can have different orders in memory."""
    torch.manual_seed(0)
    pixels = torch.randint(0, 256, (images, 10, 10, 4), dtype=torch.uint8)
    sizes = {"minatar": ((16, 3, 1),), "two layers": ((8, 4, 2), (6, 3, 1))}
    network = torch.nn.Sequential(torch.nn.Conv2d(4, 6, 3), torch.nn.ReLU())
    if kind in sizes:
        network = ConvolutionBody((10, 10, 4), sizes[kind])
    else:
        pixels = pixels.movedim(-1, 1).float()
    copied = copy.deepcopy(network)
    parameters = list(network.parameters())
    fast = FastAdam(parameters, 0.01)
    plain = torch.optim.Adam(copied.parameters(), 0.01, foreach=False)
    for _ in range(3):
        loss = network(pixels).square().sum()
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient
        fast.apply()
        plain.zero_grad()
        copied(pixels).square().sum().backward()
        plain.step()
    torch.testing.assert_close(parameters, list(copied.parameters()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "plain_kind", "decay"),
    [(FastAdam, torch.optim.Adam, 0.0), (FastAdam, torch.optim.Adam, 0.1), (FastAdamW, torch.optim.AdamW, 0.1)],
)
def test_steps_equal_those_of_pytorch_and_states_are_interchangeable(kind, plain_kind, decay, monkeypatch):
    """With the fused kernel, and with the operations that a GPU's compiler fuses."""
    torch.manual_seed(0)
    first = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(5))]
    second, third = copy.deepcopy(first), copy.deepcopy(first)
    fused, parts = kind(first, 0.01, weight_decay=decay), kind(second, 0.01, weight_decay=decay)
    parts.compile(lambda function, device: function)
    monkeypatch.setattr(parts, "learning_rate", lambda: torch.tensor(0.01))  # as on a GPU
    plain = plain_kind(third, 0.01, weight_decay=decay)
    for turn in range(10):
        if turn == 1:
            own, others = copy.deepcopy(fused.state_dict()), copy.deepcopy(plain.state_dict())
        if turn == 3:  # each returns to an earlier state
            fused.load_state_dict(others)
            parts.load_state_dict(copy.deepcopy(others))
            plain.load_state_dict(own)
        for parameters in zip(first, second, third, strict=True):
            gradient = torch.randn_like(parameters[0])
            for parameter in parameters:
                parameter.grad = gradient.clone()
        fused.apply()
        parts.apply()
        plain.step()
        torch.testing.assert_close(first, third, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(second, third, rtol=1e-5, atol=1e-6)
