"""Encoders from stored observations to the inputs of networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from interreplay.environments.own_modules import object_of
from interreplay.environments.spaces import leaves
from interreplay.learning.networks.convolutions import BODIES, ConvolutionBody, body_of, channels_first, convolutions
from interreplay.learning.networks.layers import matrix_dtype_of
from interreplay.learning.networks.normalization import Normalized, NormalizedPixels
from interreplay.transitions import Observation, observation_parts

FEATURES = 50
"""Features of an image, as in SAC-AE (Yarats et al. 2021, arXiv:1910.01741)."""
SMALLEST_IMAGE = 16
"""Smallest side of a uint8 array that is treated as an image."""


class Flat(nn.Module):
    """Encoder to flat observations ``(n, d)``, float32, with parts concatenated in the order of their names."""

    def forward(self, obs: Observation) -> Tensor:
        """Return observations ``(n, ...)``, or named parts of this shape, as ``(n, d)``."""
        if isinstance(obs, Tensor):
            return obs.flatten(1).float() if obs.ndim > 1 else obs.unsqueeze(1).float()
        parts = observation_parts(obs)
        flat = [parts[name].reshape(parts[name].shape[0], -1).float() for name in sorted(parts)]
        if len(flat) == 1:
            return flat[0]
        return torch.cat(flat, dim=1)


class OneHot(nn.Module):
    """One-hot encoding of Discrete ``(n,)`` and MultiDiscrete ``(n, ...)`` observations to ``(n, width)``."""

    _offsets: Tensor

    def __init__(self, space: gym.spaces.Discrete | gym.spaces.MultiDiscrete):
        super().__init__()
        counts = np.atleast_1d(space.n if isinstance(space, gym.spaces.Discrete) else space.nvec).reshape(-1)
        starts = np.broadcast_to(np.asarray(space.start).reshape(-1), counts.shape)
        self.width = int(counts.sum())
        ends = np.cumsum(counts)
        self.register_buffer("_offsets", torch.from_numpy(ends - counts - starts).long(), persistent=False)

    def forward(self, choices: Tensor) -> Tensor:
        """Return ``(n, width)`` float32."""
        index = choices.reshape(choices.shape[0], -1).long() + self._offsets
        return torch.zeros(choices.shape[0], self.width, device=choices.device).scatter_(1, index, 1.0)


class Convolutions(nn.Module):
    """Convolutions from images to `FEATURES` numbers in (−1, 1).

    The convolutions of Mnih et al. 2015 (Nature 518, 32 8×8/4, 64 4×4/2, 64 3×3/1), with smaller kernels where images
    are small, then one layer, layer normalization and tanh as in Yarats et al. 2021, arXiv:1910.01741.

    Args:
        shape: Shape of one uint8 image, as in `ConvolutionBody`.
    """

    width = FEATURES
    most = 255.0

    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        self.shape = shape
        self.normalized: NormalizedPixels | None = None
        _, _, *sides = channels_first(torch.zeros(1, *shape), shape).shape
        sizes = BODIES["nature"]
        if min(sides) < 36:
            sizes = ((32, 3, 2), (64, 3, 2), (64, 3, 1))
        self.convolutions, inner = convolutions(shape, sizes)
        self.head = nn.Sequential(nn.Linear(inner, FEATURES), nn.LayerNorm(FEATURES), nn.Tanh())

    def forward(self, images: Tensor) -> Tensor:
        """Return ``(n, FEATURES)`` of images ``(n, *shape)`` uint8."""
        pixels = images.float() / self.most if self.normalized is None else self.normalized(images)
        return self.head(self.convolutions(channels_first(pixels, self.shape)))


def is_image(space: gym.Space) -> bool:
    """Return whether a space contains images or stacks of images: uint8 with two sides of `SMALLEST_IMAGE` or more."""
    if not isinstance(space, gym.spaces.Box) or space.dtype != np.uint8 or not 2 <= len(space.shape) <= 4:
        return False
    return sorted(space.shape)[-2] >= SMALLEST_IMAGE


class Encoder(nn.Module):
    """One encoder per part of an observation; features are concatenated in the order of the parts' names.

    Args:
        space: Space of observations, see `interreplay.environments.spaces.leaves`.
        body: Name of the convolutions for pixels, see `interreplay.learning.networks.convolutions.body_of`; None for
            `Convolutions`.

    Attributes:
        width: Number of features d.

    Raises:
        ValueError: A part of the space is not supported.
    """

    def __init__(self, space: gym.Space, body: str | None = None):
        super().__init__()
        self.parts = nn.ModuleDict()
        self._widths = list[int]()
        self._keys: dict[str, str] = {}
        for i, (name, part) in enumerate(sorted(leaves(space).items())):
            self._keys[name] = str(i)  # names of modules must not contain dots
            encoder: nn.Module = Flat()
            if isinstance(part, gym.spaces.Discrete | gym.spaces.MultiDiscrete):
                encoder = OneHot(part)
            elif body is not None:
                encoder = body_of(part, body) or encoder
            elif is_image(part):
                encoder = Convolutions(part.shape)  # type: ignore[arg-type]
            self.parts[str(i)] = encoder
            self._widths.append(getattr(encoder, "width", None) or gym.spaces.flatdim(part))
        self.width = sum(self._widths)

    def continuous(self) -> Tensor:
        """Return whether each feature is continuous ``(d,)``, bool."""
        flat = torch.tensor([isinstance(part, Flat) for part in self.parts.values()])
        return flat.repeat_interleave(torch.tensor(self._widths))

    def normalize_pixels(self) -> dict[str, NormalizedPixels]:
        """Normalize images before they are encoded; return the normalization modules by the names of their parts."""
        made = {}
        for name, key in self._keys.items():
            part: Any = self.parts[key]
            if isinstance(part, ConvolutionBody | Convolutions):
                part.normalized = made[name] = NormalizedPixels(part.shape, part.most)
        return made

    def forward(self, obs: Observation) -> Tensor:
        """Return encoded observations ``(n, d)``, float32."""
        parts = observation_parts(obs)
        encoded = [self.parts[key](parts[name]) for name, key in self._keys.items()]
        if len(encoded) == 1:
            return encoded[0]
        return torch.cat(encoded, dim=1)


def own_encoder(space: gym.Space, choice: str | Mapping[str, Any]) -> tuple[nn.Module, int]:
    """Return the encoder ``module:Class`` of a user and its number of features d, the attribute ``width``.

    The class is a `torch.nn.Module` with the observation space as its first argument. Its ``forward`` maps observations
    ``(n, ...)`` as they are stored, or their parts by name, to features ``(n, d)``.

    Raises:
        ValueError: The class is unknown, rejects an argument, or has no width.
    """
    encoder = object_of(choice, {}, nn.Module, "encoder", space)
    width = getattr(encoder, "width", None)
    if not isinstance(width, int):
        raise ValueError(f"encoder {choice!r} has width {width!r}; expected an integer, its number of features")
    return encoder, width


def make_encoder(
    space: gym.Space, normalize: bool = False, body: Any = None, conv_dtype: str = "float32"
) -> tuple[nn.Module, int]:
    """Return the encoder of an observation space and its number of features.

    Args:
        space: Space of observations.
        normalize: Whether continuous features and images are normalized by their running statistics.
        body: As in `Encoder`, or an encoder for `own_encoder`.
        conv_dtype: Type of the products of the convolutions `body`, one of `MATRIX_DTYPES`.
    """
    if isinstance(body, Mapping) or ":" in (body or ""):
        if normalize:
            raise ValueError(f"encoder {body!r} must normalize by itself; expected normalize_observations False")
        return own_encoder(space, body)
    encoder = Encoder(space, body)
    for part in encoder.parts.values():
        if isinstance(part, ConvolutionBody):
            part.conv_dtype = matrix_dtype_of(conv_dtype)
    plain = all(isinstance(part, Flat) for part in encoder.parts.values())
    made: nn.Module = Flat() if plain else encoder
    if normalize:
        made = Normalized(made, encoder.continuous(), encoder.normalize_pixels())
    return made, encoder.width
