"""Encoders from stored observations to the inputs of networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from interreplay.environments.own_modules import make_object
from interreplay.environments.spaces import as_column, leaves
from interreplay.errors import UsageError
from interreplay.learning.networks.convolutions import (
    BODIES,
    ConvolutionBody,
    channels_first,
    convolutions,
    get_body,
    has_pixels,
)
from interreplay.learning.networks.layers import get_matrix_dtype
from interreplay.learning.networks.normalization import NormalizedEncoder, NormalizedPixels
from interreplay.transitions import Observation, observation_parts

FEATURES = 50
"""Features of an image, as in SAC-AE (Yarats et al. 2021, arXiv:1910.01741)."""
SMALLEST_IMAGE = 16
"""Smallest side of a uint8 array that is treated as an image."""


RANDOM = (
    nn.modules.dropout._DropoutNd,
    nn.modules.batchnorm._BatchNorm,
    nn.RReLU,
    nn.FractionalMaxPool2d,
    nn.FractionalMaxPool3d,
)
"""Modules of PyTorch whose outputs in training are random, or depend on the other rows."""


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
    return has_pixels(space) and space.dtype == np.uint8 and sorted(space.shape)[-2] >= SMALLEST_IMAGE


class Encoder(nn.Module):
    """One encoder per part of an observation; features are concatenated in the order of the parts' names.

    Args:
        space: Space of observations, see `interreplay.environments.spaces.leaves`.
        body: Name of the convolutions for pixels, see `interreplay.learning.networks.convolutions.get_body`; None for
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
                encoder = get_body(part, body) or encoder
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


def make_user_encoder(space: gym.Space, choice: str | Mapping[str, Any]) -> tuple[nn.Module, int]:
    """Return the encoder ``module:Class`` of a user and its number of features d, the attribute ``width``.

    The class is a `torch.nn.Module` with the observation space as its first argument. Its ``forward`` maps observations
    ``(n, ...)`` as they are stored, or their parts by name, to features ``(n, d)``.

    Raises:
        ValueError: The class is unknown or rejects an argument, its features do not have its width, or it contains a
            module that `check_repeatable` rejects.
    """
    encoder = make_object(choice, {}, nn.Module, "encoder", space)
    width = getattr(encoder, "width", None)
    if not isinstance(width, int):
        raise ValueError(f"encoder {choice!r} has width {width!r}; expected an integer, its number of features")
    check_repeatable(encoder, f"encoder {choice!r}")
    with torch.no_grad():
        features = encoder(make_example(space))
    if not isinstance(features, Tensor):
        raise ValueError(f"encoder {choice!r} returns a {type(features).__name__}; expected a tensor (n, {width})")
    if features.shape != (2, width):
        raise ValueError(
            f"encoder {choice!r} returns features of shape {tuple(features.shape)} for 2 observations; expected "
            f"(2, {width}), as its width is {width}"
        )
    return encoder, width


def make_example(space: gym.Space) -> Observation:
    """Return two equal observations of a space as they are stored: zeros, or the nearest numbers in the space."""
    parts: dict[str, Any] = {}
    for name, part in leaves(space).items():
        low = getattr(part, "low", getattr(part, "start", 0))
        nearest = np.clip(0, low, getattr(part, "high", low))
        rows = np.broadcast_to(nearest, (2, *(part.shape or ()))).astype(part.dtype)
        parts[name] = torch.from_numpy(as_column(rows))
    return parts.get("", parts)  # "" is the single part of a space without parts


def check_repeatable(module: nn.Module, what: str) -> None:
    """Raise a UsageError if a user's module contains a layer whose outputs are random or depend on the other rows.

    `what` begins the error message.
    """
    for part in module.modules():
        if isinstance(part, RANDOM) and part.training:
            if part is not module:
                kind = type(part).__name__
                raise UsageError(
                    f"{what} contains {kind}, which is not supported; expected LayerNorm, or {kind} in evaluation mode"
                )
            raise UsageError(f"{what} is not supported; expected LayerNorm, or critics of hiddens with critic_dropout")


def make_encoder(
    space: gym.Space, normalize: bool = False, body: Any = None, conv_dtype: str = "float32"
) -> tuple[nn.Module, int]:
    """Return the encoder of an observation space and its number of features.

    Args:
        space: Space of observations.
        normalize: Whether continuous features and images are normalized by their running statistics.
        body: As in `Encoder`, or an encoder for `make_user_encoder`.
        conv_dtype: Type of the products of the convolutions `body`, one of `MATRIX_DTYPES`.

    Raises:
        ValueError: There are no images for `body` or `conv_dtype`, or a user's encoder is to normalize.
    """
    if isinstance(body, Mapping) or ":" in (body or ""):
        if normalize:
            raise ValueError(f"encoder {body!r} must normalize by itself; expected normalize_observations False")
        return make_user_encoder(space, body)
    encoder = Encoder(space, body)
    bodies = [part for part in encoder.parts.values() if isinstance(part, ConvolutionBody)]
    if body in BODIES and not bodies:
        raise ValueError(
            f"encoder is {body!r} and no observation is an image of bytes or booleans; expected 'auto' or 'flat'"
        )
    if conv_dtype != "float32" and not bodies:
        raise ValueError(f"conv_dtype is {conv_dtype!r} and the encoder has no convolutions; expected 'float32'")
    for part in bodies:
        part.conv_dtype = get_matrix_dtype(conv_dtype)
    plain = all(isinstance(part, Flat) for part in encoder.parts.values())
    made: nn.Module = Flat() if plain else encoder
    if normalize:
        made = NormalizedEncoder(made, encoder.continuous(), encoder.normalize_pixels())
    return made, encoder.width
