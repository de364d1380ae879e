"""Layers that a file or a command lists: classes of `torch.nn` by name, with the sizes of inputs inferred.

A layer is a name such as ``ReLU``, or a mapping ``{"layer": "Linear", "out_features": 256}`` with the arguments of its
class. ``NoisyLinear`` is this package's; ``module:Class`` imports a user's. Layers are in a list, or in a mapping whose
names occur in error messages and on the command line, such as ``network.actor.fc1.out_features=128``.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.environments.own_modules import own_class
from interreplay.errors import accepted_names
from interreplay.learning.value.streams import Factors, Noise, NoisyLinear

INPUTS = ("in_features", "in_channels", "num_features", "num_channels", "normalized_shape", "input_size", "inputs")
"""Arguments of layers that are the size of their inputs."""
OUTPUTS = ("out_features", "out_channels", "outputs")
"""Arguments of layers that are the number of their outputs."""
RANDOM = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)
EXAMPLES = ("Linear", "NoisyLinear", "Conv2d", "LayerNorm", "Flatten", "ReLU", "Tanh", "LSTM")
Layers = Sequence[Any] | Mapping[str, Any]


def named_layers(layers: Layers) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the name of each layer, its class and its arguments.

    Raises:
        ValueError: A layer has another form.
    """
    pairs = layers.items() if isinstance(layers, Mapping) else enumerate(layers, 1)
    found = []
    for name, layer in pairs:
        given = {"layer": layer} if isinstance(layer, str) else layer
        if not isinstance(given, Mapping) or not isinstance(given.get("layer"), str):
            raise ValueError(
                f"layer {name} is {layer!r}; expected a name such as ReLU, or a mapping with layer: Linear"
            )
        arguments = {argument: value for argument, value in given.items() if argument != "layer"}
        found.append((str(name), given["layer"], arguments))
    return found


def layer_class(name: str) -> type[nn.Module]:
    """Return the class of a layer.

    Raises:
        ValueError: There is no such layer, or it draws random numbers or keeps statistics of batches.
    """
    if ":" in name:
        return own_class(name, nn.Module, "layer")
    if name == "NoisyLinear":
        return NoisyLinear
    found = getattr(nn, name, None)
    if not isinstance(found, type) or not issubclass(found, nn.Module):
        raise ValueError(
            f"unknown layer {name!r}; {accepted_names(name, EXAMPLES)}, a class of torch.nn or module:Class"
        )
    if issubclass(found, RANDOM):
        raise ValueError(f"layer {name} is not supported; expected LayerNorm, or critic_dropout for dropout")
    return found


class LayerList(nn.Module):
    """Layers one after the other.

    Args:
        layers: The layers.
        example: Inputs ``(n, ...)``, whose sizes the first layer receives.
        outputs: Number of outputs of the last layer, which it receives if it does not state one; None for any.
        place: Beginning of error messages.

    Attributes:
        width: Number of outputs.
        noisy: Whether some layers have noise.

    Raises:
        ValueError: A layer is unknown, or its size does not fit; names the layer and both sizes.
    """

    def __init__(self, layers: Layers, example: Tensor, outputs: int | None, place: str):
        super().__init__()
        self.layers = nn.ModuleList()
        described = named_layers(layers)
        for name, kind, _ in described:
            try:
                layer_class(kind)
            except ValueError as error:
                raise ValueError(f"{place}.{name}: {error}") from None
        last = max((i for i, (_, kind, _) in enumerate(described) if _has(kind, OUTPUTS)), default=-1)
        for i, (name, kind, arguments) in enumerate(described):
            shape = tuple(example.shape[1:])
            try:
                layer = _made(kind, arguments, shape, outputs if i == last else None)
                with torch.no_grad():
                    example = layer(example)
            except (TypeError, RuntimeError, ValueError, IndexError) as error:
                reason = str(error).strip().splitlines()[0]
                raise ValueError(f"{place}.{name}: {kind} does not fit inputs of shape {shape}: {reason}") from None
            self.layers.append(layer)
        self.width = int(example[0].numel())
        self.flat = example.ndim == 2
        self.noisy = any(isinstance(layer, NoisyLinear) for layer in self.layers)
        if outputs is not None and tuple(example.shape[1:]) != (outputs,):
            raise ValueError(f"{place}: the last layer returns {tuple(example.shape[1:])}; expected ({outputs},)")

    def forward(self, rows: Tensor, noise: Iterator[Factors] | None = None) -> Tensor:
        """Return outputs ``(n, ...)``; noisy layers take their noise from `noise`, None for no noise."""
        for layer in self.layers:
            drawn = (next(noise),) if noise is not None and isinstance(layer, NoisyLinear) else ()
            rows = layer(rows, *drawn)
        return rows

    def draw(self, rng: torch.Generator) -> Noise:
        """Draw the noise of each noisy layer for one pass."""
        return [layer.draw(rng) for layer in self.layers if isinstance(layer, NoisyLinear)]

    def reset(self) -> None:
        """Draw all parameters again, by PyTorch's global generator."""
        for layer in self.modules():
            draw_again = getattr(layer, "reset_parameters", None)
            if draw_again is not None:
                draw_again()

    @property
    def last_linear(self) -> nn.Linear | None:
        """The last linear layer."""
        found = [layer for layer in self.layers if isinstance(layer, nn.Linear)]
        return found[-1] if found else None


def _has(kind: str, names: tuple[str, ...]) -> bool:
    return any(name in names for name in inspect.signature(layer_class(kind)).parameters)


def _made(kind: str, arguments: Mapping[str, Any], shape: tuple[int, ...], outputs: int | None) -> nn.Module:
    """Return a layer; sizes that are not stated are those of its inputs, and `outputs`."""
    known = inspect.signature(layer_class(kind)).parameters
    filled = {name: tuple(value) if isinstance(value, list) else value for name, value in arguments.items()}
    for name in known:
        if name in INPUTS and name not in filled:
            filled[name] = shape if name == "normalized_shape" else shape[0 if name.endswith("channels") else -1]
        if name in OUTPUTS and name not in filled and outputs is not None:
            filled[name] = outputs
    for name in filled:
        if name not in known:
            raise ValueError(f"no argument {name!r}; {accepted_names(name, list(known))}")
    return layer_class(kind)(**filled)


class LayerStack(nn.Module):
    """Several networks of listed layers, with the interface of `BatchedMLP`.

    Args:
        count: Number of networks m.
        layers: The layers of each.
        inputs: Width of the inputs.
        outputs: Number of outputs.
        place: Beginning of error messages.
    """

    def __init__(self, count: int, layers: Layers, inputs: int, outputs: int, place: str):
        super().__init__()
        self.count = count
        self.networks = nn.ModuleList(LayerList(layers, torch.zeros(2, inputs), outputs, place) for _ in range(count))
        if any(network.noisy for network in self.networks):
            raise ValueError(f"{place}: NoisyLinear is a layer of DQN and its variants; expected Linear")

    def forward(self, rows: Tensor) -> Tensor:
        """Return the outputs ``(n, outputs)`` of the first network."""
        return self.networks[0](rows)

    def draw_dropped(self, *arguments: Any) -> None:
        """Return None: listed layers have no dropout."""

    def outputs(
        self, rows: Tensor | Sequence[Tensor], dropped: None = None, networks: Any = None, frozen: bool = False
    ) -> Tensor:
        """Return outputs ``(m, n, outputs)``; arguments as in `BatchedMLP.outputs`."""
        whole = rows if isinstance(rows, Tensor) else torch.cat(list(rows), dim=1)
        chosen = range(self.count) if networks is None else [int(network) for network in networks]
        found = []
        for i in chosen:
            network = self.networks[i]
            if frozen:
                constants = {name: parameter.detach() for name, parameter in network.named_parameters()}
                found.append(torch.func.functional_call(network, constants, (whole,)))
            else:
                found.append(network(whole))
        return torch.stack(found)

    def reset(self, rng: torch.Generator) -> None:
        """Draw all parameters again, seeded by `rng`."""
        seed = int(torch.randint(2**62, (), generator=rng, device=rng.device))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for network in self.networks:
                assert isinstance(network, LayerList)
                network.reset()

    def last_parameters(self) -> list[nn.Parameter]:
        """Return weights and biases of the last linear layer of each network."""
        found: list[nn.Parameter] = []
        for network in self.networks:
            assert isinstance(network, LayerList)
            if network.last_linear is not None:
                found += network.last_linear.parameters()
        return found

    def copied(self) -> LayerStack:
        """Return a copy without gradients."""
        return copy.deepcopy(self).requires_grad_(False)
