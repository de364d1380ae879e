"""Convolutions by name: memory layout and product type change the speed, and results at most slightly."""

import pytest
import torch
from torch import nn

from interreplay.learning.networks.convolutions import BODIES, SEVERAL, ConvolutionBody

SHAPES = {"nature": (4, 84, 84), "shallow": (4, 84, 84), "minatar": (10, 10, 4)}


def made(name, n=SEVERAL):
    torch.manual_seed(0)
    return ConvolutionBody(SHAPES[name], BODIES[name]), torch.randint(0, 256, (n, *SHAPES[name]), dtype=torch.uint8)


def plain(body, images):
    """Return the outputs by definition, with PyTorch's default memory layout."""
    pixels = images.float() / 255 if images.shape[-1] > 4 else images.movedim(-1, 1).float() / 255
    for layer in body.layers:
        if isinstance(layer, nn.Conv2d):
            weight, bias = layer.weight.contiguous(), layer.bias
            pixels = torch.relu(nn.functional.conv2d(pixels.contiguous(), weight, bias, layer.stride))
    return pixels.flatten(1)


def gradients(body, outputs):
    torch.manual_seed(1)
    return torch.autograd.grad((outputs * torch.randn_like(outputs)).sum(), list(body.parameters()))


@pytest.mark.parametrize("name", SHAPES)
def test_the_layout_of_memory_changes_nothing(name):
    body, images = made(name)
    ours, theirs = body(images), plain(body, images)
    assert ours.shape == (SEVERAL, body.width)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradients(body, ours), gradients(body, theirs), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", SHAPES)
def test_narrow_products_are_near_and_policies_see_none(name):
    body, images = made(name)
    exact = body(images)
    required = gradients(body, exact)
    alone = body(images[:1])
    body.conv_dtype = torch.bfloat16
    near = body(images)
    assert near.dtype == torch.float32 and not torch.equal(near, exact)
    assert (near - exact).abs().max() < 0.02 * exact.abs().max()
    for mine, definition in zip(gradients(body, near), required, strict=True):
        assert nn.functional.cosine_similarity(mine.flatten(), definition.flatten(), dim=0) > 0.99
    assert torch.equal(body(images[:1]), alone)
