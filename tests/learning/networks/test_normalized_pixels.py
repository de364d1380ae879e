"""Images normalized by running statistics of their pixels: values, states, encoders, and older checkpoints."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch

from interreplay.learning.networks.convolutions import ConvolutionBody
from interreplay.learning.networks.encoders import Convolutions, make_encoder
from interreplay.learning.networks.normalization import NormalizedPixels

SPACES = {
    "bytes": gym.spaces.Box(0, 255, (4, 36, 36), np.uint8),
    "planes": gym.spaces.Box(0, 1, (10, 10, 4), bool),
}


def images(kind: str, count: int, seed: int = 0) -> torch.Tensor:
    rng, space = np.random.default_rng(seed), SPACES[kind]
    drawn = (
        rng.integers(100, 120, (count, *space.shape)) if kind == "bytes" else rng.random((count, *space.shape)) < 0.3
    )
    return torch.from_numpy(drawn.astype(space.dtype))


@pytest.mark.parametrize(("kind", "most"), [("bytes", 255.0), ("planes", 1.0)])
def test_pixels_are_less_their_mean_over_their_deviation(kind, most):
    pixels = NormalizedPixels(SPACES[kind].shape, most)
    seen = [images(kind, 12, seed) for seed in range(3)]
    for some in seen:
        pixels.observe(some)
    every = torch.cat(seen).numpy().astype(float) / most
    expected = (every - every.mean(0)) / (every.std(0) + NormalizedPixels.LEAST)
    found = pixels(torch.cat(seen)).numpy()
    np.testing.assert_allclose(found, np.clip(expected, -3, 3), atol=1e-4)
    assert pixels.moments.count == 36


def test_many_images_are_subsampled_evenly():
    pixels = NormalizedPixels((1,), 1.0)
    pixels.observe(torch.arange(161.0).unsqueeze(1))
    assert pixels.moments.count == NormalizedPixels.ROWS and pixels.moments.mean == pytest.approx(80.0, abs=0.6)


@pytest.mark.parametrize("body", ["minatar", "shallow", None])
@pytest.mark.parametrize("count", [1, 40])
def test_an_encoder_sees_normalized_images(body, count):
    space = SPACES["bytes"]
    torch.manual_seed(0)
    plain, _ = make_encoder(space, False, body)
    torch.manual_seed(0)
    encoder, _ = make_encoder(space, True, body)
    rows = images("bytes", count)
    with torch.no_grad():
        torch.testing.assert_close(encoder(rows), plain(rows))  # no images were observed yet
        encoder.observe(images("bytes", 30, 1))
        (part,) = encoder.encoder.parts.values()
        layers = part.layers if body else lambda numbers: part.head(part.convolutions(numbers))
        torch.testing.assert_close(encoder(rows), layers(part.normalized(rows)), rtol=1e-4, atol=1e-5)
    assert isinstance(part, ConvolutionBody if body else Convolutions)
    encoder(rows).sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


def test_nothing_is_learned_of_no_images():
    pixels = NormalizedPixels(SPACES["bytes"].shape, 255.0)
    pixels.observe(images("bytes", 0))
    assert pixels.moments.count == 0 and pixels.offset.isfinite().all()


def test_images_with_numbers():
    space = gym.spaces.Dict(
        {"camera": SPACES["bytes"], "speed": gym.spaces.Box(-9, 9, (2,)), "gear": gym.spaces.Discrete(3)}
    )
    encoder, width = make_encoder(space, True, "shallow")
    rng = np.random.default_rng(0)
    obs = {"camera": images("bytes", 20), "speed": torch.from_numpy(rng.normal(5, 2, (20, 2)).astype(np.float32))}
    obs["gear"] = torch.from_numpy(rng.integers(0, 3, 20))
    encoder.observe(obs)
    found = encoder(obs)
    assert found.shape == (20, width)
    np.testing.assert_allclose(found[:, -2:].detach().mean(0), 0.0, atol=1e-5)
    assert (encoder.encoder.parts["0"].normalized.factor > 1 / 255).all()


def test_statistics_resume():
    first, _ = make_encoder(SPACES["bytes"], True, "shallow")
    first.observe(images("bytes", 10))
    second, _ = make_encoder(SPACES["bytes"], True, "shallow")
    second.load_state_dict(first.state_dict())
    second.load_statistics(copy.deepcopy(first.statistics()))
    for encoder in (first, second):
        encoder.observe(images("bytes", 10, 1))
    states = [list(each.state_dict().values()) for each in (first, second)]
    assert all(map(torch.equal, *states))
