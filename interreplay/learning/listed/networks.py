"""The networks that the setting ``network`` lists, for each family of algorithms.

A list that equals the layers of a built-in network becomes this network, with bit-exactly the same weights and results
and the same speed; other lists become PyTorch modules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from interreplay.learning.listed.layers import Layer, LayerList, Layers, LayerStack, as_list, name_layers
from interreplay.learning.networks.convolutions import BODIES, channels_first, has_pixels
from interreplay.learning.networks.encoders import is_image
from interreplay.learning.policy_gradient.policy_value import PolicyValueLayers
from interreplay.learning.value.streams import Factors, Noise, ValueLayers
from interreplay.transitions import Observation

ACTIVATIONS = {"ReLU": "relu", "Tanh": "tanh"}
SIZES = {"Linear": "out_features", "NoisyLinear": "outputs"}
"""Name of the argument for the number of outputs, by layer."""
STREAMS = {
    "values": ("features", "q", "value", "advantage"),
    "actor and critics": ("features", "actor", "critic"),
    "unrolls": ("features", "actor", "critic"),
}
"""Streams by family; `features` are shared."""


def replace_built_in(model: Mapping[str, Any], family: str, space: gym.Space) -> dict[str, Any]:
    """Return settings with a ``network`` that equals a built-in network replaced by the settings of this network.

    Args:
        model: Settings of the networks by name, with ``network``.
        family: One of `STREAMS`.
        space: Space of observations.

    Raises:
        ValueError: A stream is unknown or missing, an LSTM has layers before it that would follow it or arguments that
            it ignores, or `lstm_cells` or `encoder` contradict the listed layers.
    """
    found = dict(model)
    network = dict(model.get("network") or {})
    if not network:
        return found
    features = name_layers(network.get("features", []))
    images = is_image(space) or (has_pixels(space) and any(layer.kind.startswith("Conv") for layer in features))
    check_streams(network, family, images)
    network.pop("features", None)
    recurrent = family == "unrolls" and bool(features) and features[-1].kind == "LSTM"
    if recurrent:
        found["lstm_cells"] = count_cells(features.pop(), found.get("lstm_cells"))
        if features and not images:
            raise ValueError(
                f"network.features lists {features[-1].kind} before the LSTM; without images, expected only the LSTM, "
                "and the other layers in actor and critic"
            )
    if features and images:
        if found.get("encoder") not in (None, "auto"):
            raise ValueError(
                f"encoder is {found['encoder']!r} and network.features lists the layers of images; expected encoder "
                "'auto', or no features"
            )
        body, rest = split_body(features)
        # The layers in `rest` would follow the LSTM; networks of an actor and critics have no shared layers.
        if body is None or (rest and (recurrent or family == "actor and critics")):
            found["image_features"] = as_list(features)
            features = []
        else:
            found["encoder"] = body
            features = rest
    if features:
        network["features"] = as_list(features)
    if not network:
        return found | {"network": None}
    built_in = find_built_in_settings(network, family, separate="critic_hiddens" in model)
    if built_in is None:
        return found | {"network": network}
    return found | built_in | {"network": None}


def count_cells(memory: Layer, given: int | None) -> int:
    """Return the number of cells of a listed LSTM; raise a ValueError if the setting `given` contradicts it."""
    for name in memory.arguments:
        if name != "hidden_size":
            raise ValueError(
                f"network.features.{memory.name}: LSTM takes no argument {name!r} here; expected only hidden_size"
            )
    cells = int(memory.arguments.get("hidden_size", 256))
    if given not in (None, cells):
        raise ValueError(
            f"lstm_cells is {given} and network.features ends with an LSTM of {cells}; expected only its hidden_size"
        )
    return cells


def check_streams(network: Collection[str], family: str, images: bool) -> None:
    """Raise a ValueError if a stream of a family is unknown or missing; `images`: observations are images."""
    for name in network:
        if name not in STREAMS[family]:
            raise ValueError(f"network has no stream {name!r} here; expected some of {', '.join(STREAMS[family])}")
    given = ", ".join(network)
    streams = set(network) - {"features"}
    if family == "values" and streams not in ({"q"}, {"value", "advantage"}):
        raise ValueError(f"network has the streams {given}; expected q, or value and advantage")
    if family == "unrolls" and streams != {"actor", "critic"}:
        raise ValueError(f"network has the streams {given}; expected actor and critic")
    if family == "actor and critics" and "features" in network and not images:
        raise ValueError("network.features requires images here; expected actor and critic with all of their layers")


def check_ignored(model: Mapping[str, Any], family: str) -> None:
    """Reject settings that listed layers, or an encoder of the user, ignore."""
    network = model.get("network") or {}
    dropout = model.get("critic_dropout")
    if "critic" in network and dropout:
        raise ValueError(
            f"critic_dropout is {dropout} and network.critic lists layers without dropout; expected 0, or actor and "
            "critic of a built-in network"
        )
    encoder = model.get("encoder")
    if model.get("conv_dtype", "float32") != "float32":
        if model.get("image_features"):
            raise ValueError(
                f"conv_dtype is {model['conv_dtype']!r} and network.features lists layers of float32; expected "
                "'float32', or the convolutions of a built-in encoder"
            )
        if isinstance(encoder, Mapping) or ":" in (encoder or ""):
            raise ValueError(
                f"conv_dtype is {model['conv_dtype']!r} and encoder {encoder!r}; expected 'float32', or a built-in "
                "encoder"
            )
    all_listed = family != "actor and critics" or {"actor", "critic"} <= network.keys()
    if network and all_listed and model["matrix_dtype"] != "float32":
        raise ValueError(
            f"matrix_dtype is {model['matrix_dtype']!r} and network lists layers of float32; expected 'float32', or "
            "the layers of a built-in network"
        )


def split_body(features: Sequence[Layer]) -> tuple[str | None, list[Layer]]:
    """Return the name in `BODIES` of the convolutions with which features begin, and the layers after them.

    The name is None if they begin with something else.
    """
    given = []
    for layer in features:
        given.append((layer.kind, {"stride": 1} | layer.arguments if layer.kind == "Conv2d" else layer.arguments))
    for name, body in BODIES.items():
        expected: list[tuple[str, dict[str, Any]]] = []
        for channels, kernel, stride in body:
            expected.append(("Conv2d", {"out_channels": channels, "kernel_size": kernel, "stride": stride}))
            expected.append(("ReLU", {}))
        expected.append(("Flatten", {}))
        if given[: len(expected)] == expected:
            return name, list(features[len(expected) :])
    return None, []


# -- layers that built-in networks have ---------------------------------------------------------------


@dataclass(frozen=True)
class PlainLayers:
    """Fully connected layers as in the built-in networks.

    Attributes:
        widths: Widths of the hidden layers.
        activation: "relu" or "tanh"; "" without hidden layers.
        layer_norm: Whether hidden layers are normalized.
        sigma0: Initial scale of the noise of all layers; None for layers without noise.
        ended: Whether the last layer is linear and has the required number of outputs.
    """

    widths: tuple[int, ...]
    activation: str = ""
    layer_norm: bool = False
    sigma0: float | None = None
    ended: bool = True


def make_plain_layers(layers: Layers) -> PlainLayers | None:
    """Return listed layers as plain ones; None if they are not plain."""
    widths = []
    noise = set()
    norms = set()
    activations = set()
    ended = False
    remaining = name_layers(layers)
    while remaining:
        layer = remaining.pop(0)
        if layer.kind not in SIZES:
            return None
        arguments = dict(layer.arguments)
        width = arguments.pop(SIZES[layer.kind], None)
        noise.add(arguments.pop("sigma0", 0.5) if layer.kind == "NoisyLinear" else None)
        ended = not remaining
        if not ended:
            widths.append(width)
            norms.add(remaining[0].kind == "LayerNorm")
            if remaining[0].kind == "LayerNorm" and len(remaining) > 1:
                arguments |= remaining.pop(0).arguments
            activation = remaining.pop(0)
            arguments |= activation.arguments
            activations.add(ACTIVATIONS.get(activation.kind, ""))
        if arguments or ended == (width is not None):
            return None
    if len(noise) != 1 or len(norms) > 1 or len(activations) > 1 or "" in activations:
        return None
    return PlainLayers(
        tuple(widths),
        activation="".join(activations),
        layer_norm=True in norms,
        sigma0=noise.pop(),
        ended=ended,
    )


def make_plain_streams(network: Mapping[str, Layers]) -> dict[str, PlainLayers] | None:
    """Return streams of plain layers; None if no built-in network has such streams."""
    found = {}
    for name, layers in network.items():
        plain = make_plain_layers(layers)
        if plain is None or plain.ended == (name == "features"):
            return None
        found[name] = plain
    features = found.get("features", PlainLayers(()))
    if features.layer_norm or features.sigma0 is not None:
        return None
    activations = {stream.activation for stream in found.values()} - {""}
    if len(activations) != 1:
        return None
    return found


def find_built_in_settings(network: Mapping[str, Layers], family: str, separate: bool) -> dict[str, Any] | None:
    """Return the settings of an equal built-in network; None if there is none.

    `separate` is whether critics have their own setting of widths, as in CrossQ.
    """
    streams = make_plain_streams(network)
    if streams is None:
        return None
    features = streams.pop("features", PlainLayers((), ended=False))
    if family == "values":
        return _values(features, streams)
    if family == "unrolls":
        return _unrolls(features, streams)
    return _actor_and_critics(features, streams, separate)


def _values(features: PlainLayers, streams: Mapping[str, PlainLayers]) -> dict[str, Any] | None:
    first, *others = streams.values()
    if first.layer_norm or any(other != first for other in others):
        return None
    dueling = "value" in streams
    if (dueling or first.sigma0 is not None) and len(first.widths) != 1:
        return None
    found = _widths(features, first) | {"dueling": dueling, "noisy": first.sigma0 is not None}
    if first.sigma0 is not None:
        found["sigma0"] = first.sigma0
    return found


def _unrolls(features: PlainLayers, streams: Mapping[str, PlainLayers]) -> dict[str, Any] | None:
    actor = streams["actor"]
    if actor != streams["critic"] or actor.layer_norm or actor.sigma0 is not None:
        return None
    if features.widths and actor.widths:
        return None
    return _widths(features, actor) | {"shared_layers": bool(features.widths)}


def _actor_and_critics(
    features: PlainLayers, streams: Mapping[str, PlainLayers], separate: bool
) -> dict[str, Any] | None:
    if streams.keys() != {"actor", "critic"} or features.widths:
        return None
    actor = streams["actor"]
    critic = streams["critic"]
    if actor.layer_norm or actor.sigma0 is not None or critic.sigma0 is not None:
        return None
    if not actor.widths or not critic.widths:
        return None
    if separate and not critic.layer_norm:
        return _widths(features, actor) | {"critic_hiddens": list(critic.widths)}
    if separate or actor.widths != critic.widths:
        return None
    return _widths(features, actor) | {"critic_layer_norm": critic.layer_norm}


def _widths(features: PlainLayers, stream: PlainLayers) -> dict[str, Any]:
    return {
        "hiddens": [*features.widths, *stream.widths],
        "activation": features.activation or stream.activation,
    }


# -- modules of other layers ----------------------------------------------------------------------------


class ListedEncoder(nn.Module):
    """Listed layers from images to flat features.

    Args:
        space: Space of images, bytes or booleans.
        layers: The layers, which receive pixels ``(n, channels, height, width)`` in [0, 1].

    Attributes:
        width: Number of features.
    """

    def __init__(self, space: gym.Space, layers: Layers):
        super().__init__()
        self.shape = tuple(space.shape or ())
        self.most = 1.0 if space.dtype == bool else 255.0
        self.layers = LayerList(
            layers, channels_first(torch.zeros(2, *self.shape), self.shape), None, "network.features"
        )
        self.width = self.layers.width
        if not self.layers.flat or self.layers.noisy:
            raise ValueError("network.features: expected Flatten after the convolutions, and no NoisyLinear")

    def forward(self, obs: Observation) -> Tensor:
        """Return features ``(n, width)``."""
        assert isinstance(obs, Tensor), "one image per observation"
        return self.layers(channels_first(obs.float() / self.most, self.shape))


class ListedValues(ValueLayers):
    """Listed layers of a value network: ``q``, or dueling streams ``value`` and ``advantage``, after ``features``."""

    def __init__(self, network: Mapping[str, Layers], inputs: int, actions: int, numbers: int):
        super().__init__()
        self.numbers = numbers
        example = torch.zeros(2, inputs)
        self.features = LayerList(network.get("features", []), example, None, "network.features")
        with torch.no_grad():
            example = self.features(example)
        outputs = {"q": actions * numbers, "value": numbers, "advantage": actions * numbers}
        self.streams = nn.ModuleDict()
        for name in outputs:
            if name in network:
                self.streams[name] = LayerList(network[name], example, outputs[name], f"network.{name}")
        self.noisy = any(part.noisy for part in (self.features, *self.streams.values()))

    def outputs(self, rows: Tensor, noise: Noise | None = None) -> Tensor:
        drawn: Iterator[Factors] | None = None if noise is None else iter(noise)
        rows = self.features(rows, drawn)
        found: dict[str, Tensor] = {}
        for name, part in self.streams.items():
            found[name] = part(rows, drawn).unflatten(-1, (-1, self.numbers))
        if "q" in found:
            return found["q"]
        return found["value"] + found["advantage"] - found["advantage"].mean(dim=1, keepdim=True)

    def draw_noise(self, rng: torch.Generator) -> Noise | None:
        if not self.noisy:
            return None
        noise = self.features.draw(rng)
        for part in self.streams.values():
            assert isinstance(part, LayerList)
            noise += part.draw(rng)
        return noise


class ListedPolicyValue(PolicyValueLayers):
    """Listed layers of a policy ``actor`` and its value ``critic``, after ``features``."""

    def __init__(self, network: Mapping[str, Layers], inputs: int, numbers: int):
        nn.Module.__init__(self)
        self.widths = []
        example = torch.zeros(2, inputs)
        self.features = LayerList(network.get("features", []), example, None, "network.features")
        with torch.no_grad():
            example = self.features(example)
        actor = LayerList(network["actor"], example, numbers, "network.actor")
        critic = LayerList(network["critic"], example, 1, "network.critic")
        self.bodies = nn.ModuleList([actor, critic])
        if any(part.noisy for part in (self.features, *self.bodies)):
            raise ValueError("network: NoisyLinear is a layer of DQN and its variants; expected Linear")

    def outputs(self, rows: Tensor) -> Tensor:
        rows = self.features(rows)
        return torch.cat([body(rows) for body in self.bodies], dim=-1)


def list_actor_and_critics(networks: Any, network: Mapping[str, Layers]) -> None:
    """Replace the layers of the actor, the critics and their targets by listed ones.

    Args:
        networks: Networks of SAC, TQC, TD3 or DDPG, whose numbers of inputs and outputs are kept.
        network: Layers of "actor" or "critic".
    """
    if "actor" in network:
        networks.actor.body = _like(networks.actor.body, network["actor"], "network.actor")
        if hasattr(networks, "target_actor"):
            networks.target_actor.body = networks.actor.body.copy()
    if "critic" in network and hasattr(networks, "critics"):
        networks.critics = _like(networks.critics, network["critic"], "network.critic")
        networks.targets = networks.critics.copy()


def _like(built_in: Any, layers: Layers, place: str) -> LayerStack:
    weights: Sequence[Tensor] = built_in.weights
    return LayerStack(built_in.count, layers, weights[0].shape[1], outputs=weights[-1].shape[2], place=place)
