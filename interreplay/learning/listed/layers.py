"""Layers listed in a file or a command: classes of `torch.nn` by name, with inferred sizes of inputs.

A layer is a name such as ``ReLU``, or a mapping ``{"layer": "Linear", "out_features": 256}`` with the arguments of its
class. ``NoisyLinear`` is a class of this package; ``module:Class`` imports a user's class. Layers are in a list, or in
a mapping whose names are used in error messages and on the command line, such as
``network.actor.fc1.out_features=128``. A single layer, such as a user's whole network, needs no list.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from interreplay.environments.own_modules import check_arguments, import_user_class
from interreplay.errors import UsageError, accepted_names
from interreplay.learning.networks.batched_layers import at_once
from interreplay.learning.networks.encoders import check_repeatable
from interreplay.learning.value.streams import Factors, Noise, NoisyLinear

CHANNELS = ("in_channels", "num_channels", "num_features")
"""Names of layers' arguments for the number of channels of the inputs."""
INPUTS = ("in_features", "input_size", "inputs")
"""Names of layers' arguments for the width of the inputs."""
OUTPUTS = ("out_features", "out_channels", "outputs")
"""Names of layers' arguments for the number of outputs."""
EXAMPLES = ("Linear", "NoisyLinear", "Conv2d", "LayerNorm", "Flatten", "ReLU", "Tanh", "LSTM")
Layers = Sequence[Any] | Mapping[str, Any]


class Layer(NamedTuple):
    """A listed layer.

    Attributes:
        name: Name in a mapping, or position in a list, counted from 1.
        kind: Name of the class.
        arguments: Arguments of the class.
    """

    name: str
    kind: str
    arguments: dict[str, Any]


def name_layers(layers: Layers) -> list[Layer]:
    """Return the layers of a list, of a mapping, or a single one; raise a ValueError for another form."""
    if isinstance(layers, str) or (isinstance(layers, Mapping) and "layer" in layers):
        layers = [layers]
    if not isinstance(layers, Mapping):
        layers = dict(enumerate(layers, 1))  # type: ignore[arg-type]
    found = []
    for name, given in layers.items():
        arguments = {"layer": given} if isinstance(given, str) else given
        if not isinstance(arguments, Mapping) or not isinstance(arguments.get("layer"), str):
            raise ValueError(
                f"layer {name} is {given!r}; expected a name such as ReLU, or a mapping with layer: Linear"
            )
        arguments = dict(arguments)
        kind = arguments.pop("layer")
        found.append(Layer(str(name), kind, arguments))
    return found


def as_list(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """Return layers in the form that `name_layers` reads."""
    return [{"layer": layer.kind, **layer.arguments} for layer in layers]


def layer_class(name: str) -> type[nn.Module]:
    """Return the class of a layer."""
    if ":" in name:
        return import_user_class(name, nn.Module, "layer")
    if name == "NoisyLinear":
        return NoisyLinear
    found = getattr(nn, name, None)
    if not isinstance(found, type) or not issubclass(found, nn.Module):
        raise UsageError(
            f"unknown layer {name!r}; {accepted_names(name, EXAMPLES)}, a class of torch.nn or module:Class"
        )
    return found


def make_layer(
    kind: type[nn.Module], arguments: Mapping[str, Any], shape: tuple[int, ...], outputs: int | None
) -> nn.Module:
    """Return a layer.

    Sizes that are missing in the arguments are inferred from the `shape` of an input and the number of `outputs`, if
    one is required. Raise a UsageError for unknown arguments.
    """
    check_arguments(kind.__name__, kind, arguments)
    filled = dict(arguments)
    for name, value in arguments.items():
        if isinstance(value, list):  # files cannot contain tuples
            filled[name] = tuple(value)
    for name in inspect.signature(kind).parameters:
        if name in filled:
            continue
        if name == "normalized_shape":
            filled[name] = shape
        elif name in CHANNELS:
            filled[name] = shape[0]
        elif name in INPUTS:
            filled[name] = shape[-1]
        elif name in OUTPUTS and outputs is not None:
            filled[name] = outputs
    return kind(**filled)


class LayerList(nn.Module):
    """Layers one after the other.

    Args:
        layers: The layers.
        example: Inputs ``(n, ...)``, from which the input sizes of the first layer are inferred.
        outputs: Required number of outputs, which the last layer receives if it does not define one; None for any.
        place: Beginning of error messages.

    Attributes:
        width: Number of outputs.
        flat: Whether an output is a vector.
        noisy: Whether some layers have noise.

    Raises:
        ValueError: A layer is unknown, or its size does not fit.
    """

    def __init__(self, layers: Layers, example: Tensor, outputs: int | None, place: str):
        super().__init__()
        described = name_layers(layers)
        classes = []
        sized = None
        for number, layer in enumerate(described):
            try:
                kind = layer_class(layer.kind)
            except UsageError as error:
                raise ValueError(f"{place}.{layer.name}: {error}") from None
            if issubclass(kind, nn.RNNBase):
                raise ValueError(
                    f"{place}.{layer.name}: {layer.kind} is recurrent; expected LSTM as the last of the features of an "
                    "algorithm for unrolls"
                )
            classes.append(kind)
            if not inspect.signature(kind).parameters.keys().isdisjoint(OUTPUTS):
                sized = number  # the last layer with a number of outputs receives the required number
        self.layers = nn.ModuleList()
        for number, layer in enumerate(described):
            shape = tuple(example.shape[1:])
            required = outputs if number == sized else None
            try:
                made = make_layer(classes[number], layer.arguments, shape, required)
                check_repeatable(made, f"layer {layer.kind}")
                with torch.no_grad():
                    example = made(example)
            except UsageError as error:
                raise ValueError(f"{place}.{layer.name}: {error}") from None
            except (TypeError, RuntimeError, ValueError, IndexError) as error:
                reason = str(error).strip().partition("\n")[0]
                raise ValueError(
                    f"{place}.{layer.name}: {layer.kind} does not fit inputs of shape {shape}: {reason}"
                ) from None
            if not isinstance(example, Tensor):
                raise ValueError(
                    f"{place}.{layer.name}: {layer.kind} returns {type(example).__name__}; expected a tensor"
                )
            self.layers.append(made)
        self.width = int(example[0].numel())
        self.flat = example.ndim == 2
        self.noisy = any(isinstance(layer, NoisyLinear) for layer in self.layers)
        if outputs is not None and tuple(example.shape[1:]) != (outputs,):
            raise ValueError(f"{place}: the last layer returns {tuple(example.shape[1:])}; expected ({outputs},)")

    def forward(self, rows: Tensor, noise: Iterator[Factors] | None = None) -> Tensor:
        """Return outputs ``(n, ...)``; noisy layers take their noise from `noise`, None for no noise."""
        for layer in self.layers:
            drawn: tuple[Factors, ...] = ()
            if noise is not None and isinstance(layer, NoisyLinear):
                drawn = (next(noise),)
            rows = layer(rows, *drawn)
        return rows

    def draw(self, rng: torch.Generator) -> Noise:
        """Draw the noise of each noisy layer for one pass."""
        return [layer.draw(rng) for layer in self.layers if isinstance(layer, NoisyLinear)]

    @property
    def last_linear(self) -> nn.Linear | None:
        """The last linear layer."""
        for layer in reversed(self.layers):
            if isinstance(layer, nn.Linear):
                return layer
        return None


class LayerStack(nn.Module):
    """Several networks of listed layers, with the interface of `BatchedMLP`.

    Attributes:
        plain: Whether autograd differentiates each operation that follows the layers, as `torch.func` requires.
    """

    plain = False

    def __init__(self, count: int, layers: Layers, inputs: int, outputs: int, place: str):
        super().__init__()
        self.count = count
        self._described = (layers, inputs, outputs, place)
        self.networks = nn.ModuleList(self._network() for _ in range(count))
        if any(network.noisy for network in self.networks):
            raise ValueError(f"{place}: NoisyLinear is a layer of DQN and its variants; expected Linear")

    def _network(self) -> LayerList:
        layers, inputs, outputs, place = self._described
        return LayerList(layers, torch.zeros(2, inputs), outputs, place)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the outputs ``(n, outputs)`` of the first network."""
        return self.networks[0](rows)

    def draw_dropped(self, *arguments: Any) -> None:
        """Return None: listed layers have no dropout."""

    def outputs(
        self, rows: Tensor | Sequence[Tensor], dropped: None = None, networks: Any = None, frozen: bool = False
    ) -> Tensor:
        """Return outputs ``(m, n, outputs)``; arguments as in `BatchedMLP.outputs`."""
        if not isinstance(rows, Tensor):
            rows = torch.cat(list(rows), dim=1)
        if isinstance(networks, Tensor) and at_once(networks.device):  # reading the indices would wait for the device
            return self.outputs(rows, dropped, None, frozen)[networks]
        if networks is None:
            networks = range(self.count)
        found = []
        for i in map(int, networks):
            network = self.networks[i]
            if frozen:
                constants = {name: parameter.detach() for name, parameter in network.named_parameters()}
                found.append(torch.func.functional_call(network, constants, (rows,)))
            else:
                found.append(network(rows))
        return torch.stack(found)

    def reset(self, rng: torch.Generator) -> None:
        """Draw all parameters again, seeded by `rng`: the networks take the parameters of new ones."""
        seed = int(torch.randint(2**62, (), generator=rng, device=rng.device))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for network in self.networks:
                network.load_state_dict(self._network().state_dict())

    def last_parameters(self) -> list[nn.Parameter]:
        """Return weights and biases of the last linear layer of each network."""
        found: list[nn.Parameter] = []
        for network in self.networks:
            assert isinstance(network, LayerList)
            if network.last_linear is not None:
                found += network.last_linear.parameters()
        return found

    def copy(self) -> LayerStack:
        """Return a copy without gradients."""
        return copy.deepcopy(self).requires_grad_(False)
