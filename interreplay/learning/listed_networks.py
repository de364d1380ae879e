"""The networks that the setting ``network`` lists, for each family of algorithms.

A list of layers that a built-in network also has becomes that network, with the same weights and results bit for bit
and its speed; other lists become modules of PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from interreplay.learning.listed_layers import LayerList, Layers, LayerStack, named_layers
from interreplay.learning.networks.convolutions import BODIES, channels_first
from interreplay.learning.networks.encoders import is_image
from interreplay.learning.policy_gradient.policy_value import PolicyValueLayers
from interreplay.learning.value.streams import Factors, Noise, ValueLayers
from interreplay.transitions import Observation

ACTIVATIONS = {"ReLU": "relu", "Tanh": "tanh"}
STREAMS = {
    "values": ("features", "q", "value", "advantage"),
    "actor and critics": ("features", "actor", "critic"),
    "unrolls": ("features", "actor", "critic"),
}
"""Streams by family; `features` are shared."""


@dataclass(frozen=True)
class Plain:
    """Fully connected layers as the built-in networks have them.

    Attributes:
        widths: Widths of the hidden layers.
        activation: "relu" or "tanh"; "" without hidden layers.
        layer_norm: Whether hidden layers are normalized.
        sigma0: Initial scale of the noise of all layers; None for layers without noise.
        ended: Whether the last layer is linear, of as many outputs as required.
    """

    widths: tuple[int, ...]
    activation: str = ""
    layer_norm: bool = False
    sigma0: float | None = None
    ended: bool = True


def plain_layers(layers: Layers) -> Plain | None:
    """Return listed layers as plain ones; None if they are not plain."""
    rest = named_layers(layers)
    widths: list[int] = []
    activations: set[str] = set()
    norms: set[bool] = set()
    sigmas: set[float | None] = set()
    ended = False
    while rest and not ended:
        _, kind, arguments = rest.pop(0)
        size = {"Linear": "out_features", "NoisyLinear": "outputs"}.get(kind)
        noise = {"sigma0"} if kind == "NoisyLinear" else set()
        if size is None or arguments.keys() - {size} - noise:
            return None
        sigmas.add(arguments.get("sigma0", 0.5) if noise else None)
        ended = not rest
        if ended != (size not in arguments):
            return None
        if ended:
            break
        widths.append(arguments[size])
        normalized = rest[0][1:] == ("LayerNorm", {})
        norms.add(normalized)
        following = rest[normalized : normalized + 1]
        if not following or following[0][1] not in ACTIVATIONS or following[0][2]:
            return None
        activations.add(ACTIVATIONS[following[0][1]])
        rest = rest[normalized + 1 :]
    if len(activations) > 1 or len(norms) > 1 or len(sigmas) != 1:
        return None
    return Plain(
        tuple(widths),
        activation=next(iter(activations), ""),
        layer_norm=next(iter(norms), False),
        sigma0=next(iter(sigmas)),
        ended=ended,
    )


def with_built_in(model: Mapping[str, Any], family: str, space: gym.Space) -> dict[str, Any]:
    """Return settings in which a ``network`` that a built-in one equals is replaced by the settings of that one.

    Args:
        model: Settings of the networks by name, with ``network``.
        family: One of `STREAMS`.
        space: Space of observations.

    Raises:
        ValueError: A stream is unknown or missing.
    """
    network = dict(model.get("network") or {})
    if not network:
        return dict(model)
    for name in network:
        if name not in STREAMS[family]:
            raise ValueError(f"network has no stream {name!r} here; expected some of {', '.join(STREAMS[family])}")
    if family == "values" and {*network} - {"features"} not in ({"q"}, {"value", "advantage"}):
        raise ValueError(f"network has the streams {', '.join(network)}; expected q, or value and advantage")
    if family == "actor and critics" and "features" in network and not is_image(space):
        raise ValueError("network.features are for images here; expected actor and critic with all of their layers")
    if family == "unrolls" and not {"actor", "critic"} <= {*network}:
        raise ValueError(f"network has the streams {', '.join(network)}; expected actor and critic")
    found = dict(model)
    if family == "unrolls":
        network, cells = _without_memory(network)
        found["lstm_cells"] = cells or model.get("lstm_cells")
    if "features" in network and is_image(space):
        network, body = _without_body(network)
        found["encoder"] = body or model.get("encoder")
        if body is None:
            found["image_features"] = network.pop("features")
    if not network:
        return found | {"network": None}
    built_in = _built_in(network, family, separate="critic_hiddens" in model)
    if built_in is None:
        return found | {"network": network}
    return found | built_in | {"network": None}


def _without_memory(network: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return streams without an LSTM at the end of the features, and its number of cells."""
    features = named_layers(network.get("features", []))
    if not features or features[-1][1] != "LSTM":
        return network, None
    kept = [{"layer": kind, **arguments} for _, kind, arguments in features[:-1]]
    others = {name: layers for name, layers in network.items() if name != "features"}
    return (others | {"features": kept} if kept else others), int(features[-1][2].get("hidden_size", 256))


def _without_body(network: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return streams without convolutions that are one of `BODIES`, and their name."""
    features = named_layers(network["features"])
    kinds = [kind for _, kind, _ in features]
    if "Flatten" not in kinds:
        return network, None
    end = kinds.index("Flatten")
    if kinds[:end] != ["Conv2d", "ReLU"] * (end // 2) or features[end][2]:
        return network, None
    wanted = []
    for _, _, arguments in features[:end:2]:
        known = {"out_channels", "kernel_size", "stride"}
        if not known >= arguments.keys():
            return network, None
        wanted.append((arguments.get("out_channels"), arguments.get("kernel_size"), arguments.get("stride", 1)))
    name = next((name for name, body in BODIES.items() if list(body) == wanted), None)
    if name is None:
        return network, None
    kept = [{"layer": kind, **arguments} for _, kind, arguments in features[end + 1 :]]
    others = {stream: layers for stream, layers in network.items() if stream != "features"}
    return others | ({"features": kept} if kept else {}), name


def _built_in(network: Mapping[str, Layers], family: str, separate: bool) -> dict[str, Any] | None:
    """Return the settings of the built-in network with these layers; None if there is none.

    Args:
        network: Layers by stream.
        family: One of `STREAMS`.
        separate: Whether critics have widths of their own, as CrossQ's.
    """
    plain = {name: plain_layers(layers) for name, layers in network.items()}
    features = plain.pop("features", Plain((), ended=False))
    if features is None or features.ended or features.layer_norm or features.sigma0 is not None:
        return None
    streams = [stream for stream in plain.values() if stream is not None]
    if len(streams) < len(plain) or not all(stream.ended for stream in streams):
        return None
    if (
        len({stream.widths for stream in streams}) > 1
        and not separate
        or len({stream.sigma0 for stream in streams}) > 1
    ):
        return None
    activations = {one.activation for one in (features, *streams)} - {""}
    streams.sort(key=lambda stream: stream is plain.get("critic"))
    widths = [*features.widths, *streams[0].widths]
    if len(activations) > 1 or not widths:
        return None
    found: dict[str, Any] = {"hiddens": widths, "activation": next(iter(activations))}
    norms = {name: stream.layer_norm for name, stream in plain.items() if stream is not None}
    sigma0 = streams[0].sigma0
    if family == "actor and critics":
        if set(plain) != {"actor", "critic"} or features.widths or norms["actor"] or sigma0 is not None:
            return None
        if separate:
            return None if norms["critic"] else found | {"critic_hiddens": list(streams[-1].widths)}
        return found | {"critic_layer_norm": norms["critic"]}
    if any(norms.values()):
        return None
    if family == "unrolls":
        if sigma0 is not None or (features.widths and streams[0].widths):
            return None
        return found | {"shared_layers": bool(features.widths)}
    dueling = "value" in plain
    if (dueling or sigma0 is not None) and len(streams[0].widths) != 1:
        return None
    noise = {"noisy": False} if sigma0 is None else {"noisy": True, "sigma0": sigma0}
    return found | {"dueling": dueling} | noise


class ListedEncoder(nn.Module):
    """Listed layers from images to flat features.

    Args:
        space: Space of images.
        layers: The layers, which receive pixels ``(n, channels, height, width)`` in [0, 1].

    Attributes:
        width: Number of features.
    """

    def __init__(self, space: gym.Space, layers: Layers):
        super().__init__()
        self.shape = tuple(space.shape or ())
        self.layers = LayerList(
            layers, channels_first(torch.zeros(2, *self.shape), self.shape), None, "network.features"
        )
        self.width = self.layers.width
        if not self.layers.flat or self.layers.noisy:
            raise ValueError("network.features: expected Flatten after the convolutions, and no NoisyLinear")

    def forward(self, obs: Observation) -> Tensor:
        """Return features ``(n, width)``."""
        assert isinstance(obs, Tensor), "one image per observation"
        return self.layers(channels_first(obs.float() / 255.0, self.shape))


class ListedValues(ValueLayers):
    """Listed layers of a value network: ``q``, or dueling streams ``value`` and ``advantage``, after ``features``.

    Args:
        network: Layers by stream.
        inputs: Width of an encoded observation.
        actions: Number of actions A.
        numbers: Outputs per action N.
    """

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
    """Listed layers of a policy ``actor`` and its value ``critic``, after ``features``.

    Args:
        network: Layers by stream.
        inputs: Width of an encoded observation.
        numbers: Number of outputs of the policy.
    """

    def __init__(self, network: Mapping[str, Layers], inputs: int, numbers: int):
        nn.Module.__init__(self)
        self.widths = []
        example = torch.zeros(2, inputs)
        self.features = LayerList(network.get("features", []), example, None, "network.features")
        with torch.no_grad():
            example = self.features(example)
        self.bodies = nn.ModuleList(
            LayerList(network[name], example, outputs, f"network.{name}")
            for name, outputs in (("actor", numbers), ("critic", 1))
        )
        if any(part.noisy for part in (self.features, *self.bodies)):
            raise ValueError("network: NoisyLinear is a layer of DQN and its variants; expected Linear")

    def outputs(self, rows: Tensor) -> Tensor:
        rows = self.features(rows)
        return torch.cat([body(rows) for body in self.bodies], dim=-1)


def list_actor_and_critics(networks: Any, network: Mapping[str, Layers]) -> None:
    """Replace the layers of the actor, the critics and their targets by listed ones.

    Args:
        networks: Networks of SAC, TQC, TD3 or DDPG, with the inputs and outputs to keep.
        network: Layers of "actor" or "critic".
    """
    if "actor" in network:
        networks.actor.body = _like(networks.actor.body, network["actor"], "network.actor")
        if hasattr(networks, "target_actor"):
            networks.target_actor.body = networks.actor.body.copied()
    if "critic" in network and hasattr(networks, "critics"):
        networks.critics = _like(networks.critics, network["critic"], "network.critic")
        networks.targets = networks.critics.copied()


def _like(built_in: Any, layers: Layers, place: str) -> LayerStack:
    weights: Sequence[Tensor] = built_in.weights
    return LayerStack(built_in.count, layers, weights[0].shape[1], weights[-1].shape[2], place)
