"""Networks of each algorithm, built from plain settings, for training and for loading stored policies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym
from torch import nn

from interreplay.environments.spaces import check_numbers
from interreplay.learning.actor_critic.crossq import CrossQNetworks
from interreplay.learning.actor_critic.discrete_sac import DiscreteSACNetworks
from interreplay.learning.actor_critic.networks import ActorCriticNetworks
from interreplay.learning.actor_critic.sac import SACNetworks
from interreplay.learning.actor_critic.td3 import DeterministicNetworks
from interreplay.learning.actor_critic.tqc import TQCNetworks
from interreplay.learning.listed.networks import (
    ListedEncoder,
    ListedPolicyValue,
    ListedValues,
    check_ignored,
    list_actor_and_critics,
    replace_built_in,
)
from interreplay.learning.networks.encoders import make_encoder
from interreplay.learning.networks.layers import BatchedMLP, get_matrix_dtype
from interreplay.learning.networks.memory import Memory
from interreplay.learning.policy_gradient.policy_value import (
    CategoricalWithValue,
    NormalWithValue,
    PolicyValueNetworks,
    PolicyWithValue,
    make_orthogonal,
)
from interreplay.learning.value.implicit import Implicit, ImplicitLayers
from interreplay.learning.value.q_networks import QNetworks
from interreplay.learning.value.streams import OneStream, Streams, ValueLayers
from interreplay.learning.value.value_heads import Categorical, Mean, Quantiles, ValueHead

BOX = gym.spaces.Box
DISCRETE = gym.spaces.Discrete
COMMON = ("hiddens", "matrix_dtype", "activation", "normalize_observations", "network", "encoder")
"""Settings that determine the networks of all algorithms."""
CRITICS = {"n_critics": "critics", "critic_layer_norm": "layer_norm", "critic_dropout": "dropout"}
"""Settings that determine critics of plain layers, and arguments of `ActorCriticNetworks`."""
RESIDUAL = ("critic_blocks", "critic_width", "actor_blocks", "actor_width")
"""Settings that determine residual networks."""
_HEAD = ("distribution", "atoms", "value_range", "kappa", "huber_delta")


@dataclass(frozen=True)
class Architecture(ABC):
    """The networks of an algorithm.

    Attributes:
        settings: Names of the algorithm's settings that determine its networks, in addition to `COMMON`.
        acts_in: Supported kinds of action spaces.
    """

    settings: tuple[str, ...]
    acts_in: tuple[type[gym.Space], ...]
    family: ClassVar[str] = "actor and critics"

    def make(self, inputs: int, space: gym.Space, model: Mapping[str, Any], inference_only: bool) -> nn.Module:
        """Return networks with a policy ``actor``.

        `inputs` is the width of an encoded observation, and `model` has the settings in `COMMON` and `settings` by
        name.

        Raises:
            ValueError: A setting has no effect on the listed layers, or a layer is not supported.
        """
        if not inference_only:
            check_ignored(model, self.family)
        return self._make(inputs, space, model, inference_only)

    @abstractmethod
    def _make(self, inputs: int, space: gym.Space, model: Mapping[str, Any], inference_only: bool) -> nn.Module:
        """Return the networks; arguments as in `make`."""


@dataclass(frozen=True)
class ActorAndCritics(Architecture):
    """Networks of SAC, TQC, CrossQ, TD3 and DDPG.

    Attributes:
        networks: Class of the networks for continuous actions.
        last_bound: Bound of the last layers' initial weights; None for the bound of other layers.
    """

    networks: type[ActorCriticNetworks]
    last_bound: float | None = None

    def _make(self, inputs: int, space: gym.Space, model: Mapping[str, Any], inference_only: bool) -> nn.Module:
        kind = DiscreteSACNetworks if isinstance(space, DISCRETE) else self.networks
        options = {CRITICS.get(name, name): model[name] for name in self.settings if name in model}
        options |= {"inference_only": inference_only, "last_bound": self.last_bound}
        made = kind(inputs, gym.spaces.flatdim(space), model["hiddens"], **options)
        if model.get("network"):
            if isinstance(made, CrossQNetworks):
                raise ValueError(
                    "network is not supported by CrossQ; expected both actor and critic, of Linear and ReLU, or of "
                    "Linear and Tanh"
                )
            list_actor_and_critics(made, model["network"])
            if not inference_only:
                made.bound_last_layers()
                made.copy_to_targets()
        return made


class Values(Architecture):
    """Networks of DQN and its variants."""

    family = "values"

    def _make(self, inputs: int, space: gym.Space, model: Mapping[str, Any], inference_only: bool) -> nn.Module:
        head = make_head(**{name: model[name] for name in _HEAD})
        actions = gym.spaces.flatdim(space)
        options = {"hiddens": model["hiddens"], "activation": model["activation"]}
        if isinstance(head, Implicit):
            for name in ("dueling", "noisy", "network"):
                if model.get(name):
                    raise ValueError(
                        f"{name} is {model[name]} and distribution 'implicit'; expected another distribution"
                    )
            layers: ValueLayers = ImplicitLayers(inputs, actions, head.fractions, **options)
        elif model.get("network"):
            layers = ListedValues(model["network"], inputs, actions, head.numbers)
        elif model["dueling"] or model["noisy"]:
            sigma0 = model["sigma0"] if model["noisy"] else None
            layers = Streams(inputs, actions, head.numbers, dueling=model["dueling"], sigma0=sigma0, **options)
        else:
            layers = OneStream(inputs, actions, head.numbers, **options)
        return QNetworks(layers, head, actions, inference_only)


class PolicyAndValue(Architecture):
    """Networks of algorithms that learn from unrolls."""

    family = "unrolls"

    def _make(self, inputs: int, space: gym.Space, model: Mapping[str, Any], inference_only: bool) -> nn.Module:
        cells = model["lstm_cells"]
        widths = (cells or inputs, gym.spaces.flatdim(space), model["hiddens"], model["shared_layers"])
        if isinstance(space, DISCRETE):
            actor: PolicyWithValue = CategoricalWithValue(*widths)
        else:
            actor = NormalWithValue(*widths, model["free_log_std"], model["initial_log_std"])
        if model.get("network"):
            numbers = actor.layers.widths[0] - (len(actor.layers.widths) == 1)
            actor.layers = ListedPolicyValue(model["network"], cells or inputs, numbers)
        if cells:
            actor.memory = Memory(inputs, cells)
        return PolicyValueNetworks(actor)


ARCHITECTURES: dict[str, Architecture] = {
    "SAC": ActorAndCritics((*CRITICS, *RESIDUAL, "initial_alpha"), (BOX, DISCRETE), SACNetworks),
    "TQC": ActorAndCritics((*CRITICS, *RESIDUAL, "initial_alpha", "n_quantiles"), (BOX,), TQCNetworks),
    "CrossQ": ActorAndCritics(
        ("n_critics", "initial_alpha", "critic_hiddens", "renorm_warm_up"), (BOX,), CrossQNetworks
    ),
    "TD3": ActorAndCritics((*CRITICS, *RESIDUAL), (BOX,), DeterministicNetworks),
    "DDPG": ActorAndCritics((*CRITICS, *RESIDUAL), (BOX,), DeterministicNetworks, last_bound=3e-3),
    "DQN": Values(("conv_dtype", "dueling", "noisy", "sigma0", *_HEAD), (DISCRETE,)),
    "IMPALA": PolicyAndValue(
        ("conv_dtype", "lstm_cells", "shared_layers", "free_log_std", "initial_log_std", "initial_weights"),
        (BOX, DISCRETE),
    ),
}
"""Architectures of the algorithms by the names that checkpoints store."""


def make_head(distribution: str, atoms: int | str, value_range: Any, kappa: float, huber_delta: Any) -> ValueHead:
    """Return the head that settings of `DQNSettings` describe."""
    if distribution == "mean":
        return Mean(huber_delta)
    if distribution == "categorical":
        return Categorical(51 if atoms == "auto" else int(atoms), *value_range)
    if distribution == "implicit":
        return Implicit(64 if atoms == "auto" else int(atoms), kappa)
    return Quantiles(200 if atoms == "auto" else int(atoms), kappa)


def build_encoder(space: gym.Space, model: Mapping[str, Any]) -> tuple[nn.Module, int]:
    """Return the encoder of an observation space and its number of features."""
    check_numbers("observation", space)
    if model.get("image_features"):
        if model["normalize_observations"]:
            raise ValueError("network.features are not normalized; expected normalize_observations False")
        encoder = ListedEncoder(space, model["image_features"])
        return encoder, encoder.width
    conv_dtype = model.get("conv_dtype", "float32")  # only some algorithms have this setting
    return make_encoder(space, model["normalize_observations"], model.get("encoder"), conv_dtype)


def resolve_model(architecture: Architecture, observations: gym.Space, model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of networks, with listed layers replaced by equal built-in networks."""
    found = replace_built_in(model, architecture.family, observations)
    if architecture.family == "actor and critics" and found.get("encoder") == "auto":
        found["encoder"] = None  # convolutions to 50 features
    return found


def assemble(networks: Any, encoder: nn.Module, model: Mapping[str, Any]) -> Any:
    """Return networks with their encoder and their settings of products, activations and initial weights."""
    networks.encoder = encoder
    for layers in networks.modules():
        if isinstance(layers, BatchedMLP):
            layers.matrix_dtype = get_matrix_dtype(model["matrix_dtype"])
            layers.activation = model["activation"]
    if model.get("initial_weights") == "orthogonal":  # only some algorithms have this setting
        make_orthogonal(networks)
    return networks
