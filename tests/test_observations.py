"""Observation spaces as named columns, and their encoding for networks."""

import numpy as np
import pytest
import torch
from builders import stacked
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text, Tuple
from gymnasium.spaces.utils import flatten

from interreplay.environments.spaces import leaves, name_parts
from interreplay.learning.networks.encoders import FEATURES, Convolutions, is_image, make_encoder
from tests.rllib.spaces_envs import KINDS


def batch(space, n=4):
    """Observations of a space, stacked as by vector environments and as a list."""
    space.seed(0)
    single = [space.sample() for _ in range(n)]
    return stacked(single), single


def tensors(observation):
    parts = name_parts(observation)
    return {k: torch.as_tensor(v) for k, v in parts.items()} if isinstance(parts, dict) else torch.as_tensor(parts)


def test_nested_spaces_become_one_level():
    space, _ = KINDS["Nested"]
    assert sorted(leaves(space)) == ["arm/grip", "arm/pose", "rest/0", "rest/1"]
    observation, _ = batch(space)
    assert set(name_parts(observation)) == set(leaves(space))
    assert leaves(Discrete(3)) == {"": Discrete(3)}


def test_unsupported_spaces_are_rejected():
    with pytest.raises(ValueError, match=r"pose/name is Text\(.*expected Box, Discrete"):
        leaves(Dict(pose=Dict(name=Text(3))))
    with pytest.raises(ValueError, match="has no parts"):
        leaves(Tuple(()))
    with pytest.raises(ValueError, match="has two parts with the name a/b; expected keys without slashes"):
        leaves(Dict({"a/b": Discrete(2), "a": Dict(b=Discrete(3))}))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "Image" not in kind])
def test_encodings_equal_those_of_gymnasium(kind):
    """`gymnasium.spaces.flatten` is the reference; its parts are in the order of the space, ours are sorted by name."""
    space, _ = KINDS[kind]
    observation, single = batch(space)
    encoder, width = make_encoder(space)
    encoded = encoder(tensors(observation))
    assert encoded.shape == (4, width) and encoded.dtype == torch.float32
    parts = leaves(space)
    for row, one in zip(encoded, single, strict=True):
        named = name_parts(one) if isinstance(one, dict | tuple) else {"": one}
        expected = np.concatenate([flatten(parts[name], named[name]).reshape(-1) for name in sorted(parts)])
        np.testing.assert_allclose(row.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "shape", [(84, 84), (24, 24, 3), (3, 24, 24), (4, 84, 84), (4, 36, 40), (2, 24, 24, 3), (4, 3, 24, 24)]
)
def test_images_become_features(shape):
    torch.manual_seed(0)
    assert is_image(Box(0, 255, shape, np.uint8))
    encoder = Convolutions(shape)
    images = torch.randint(0, 256, (5, *shape), dtype=torch.uint8)
    features = encoder(images)
    assert features.shape == (5, FEATURES) and features.abs().max() <= 1
    features.sum().backward()
    assert all(p.grad is not None for p in encoder.parameters())


def test_the_position_of_channels_does_not_matter():
    torch.manual_seed(0)
    last = Convolutions((24, 24, 3))
    first = Convolutions((3, 24, 24))
    first.load_state_dict(last.state_dict())
    images = torch.randint(0, 256, (2, 24, 24, 3), dtype=torch.uint8)
    assert torch.equal(last(images), first(images.permute(0, 3, 1, 2)))


def test_small_arrays_and_floats_are_not_images():
    for space in (Box(0, 255, (8, 8), np.uint8), Box(0, 1, (32, 32), np.float32), MultiDiscrete([3])):
        assert not is_image(space)
