"""Encoders and layers of a user: frozen parameters, parameters that do not affect their output, and rejections."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from interreplay.learning.listed.networks import ListedValues, list_actor_and_critics
from interreplay.learning.networks.encoders import Flat, make_encoder, make_example
from interreplay.learning.policy_gradient.impala import IMPALAUpdate
from interreplay.learning.update import Batch
from interreplay.learning.value.dqn import DQNUpdate
from interreplay.learning.value.q_networks import QNetworks
from interreplay.learning.value.streams import OneStream
from interreplay.learning.value.value_heads import Mean
from tests.learning.batches import ACTIONS, OBS, N, batch, rng
from tests.learning.policy_gradient.test_impala import networks as unroll_networks
from tests.learning.policy_gradient.test_impala import unrolls
from tests.learning.update_cases import ALGORITHMS

WIDTH = 7
MINE = f"{__name__}:Partly"


class Partly(nn.Module):
    """A frozen layer, a layer that learns, and a layer that does not affect the output."""

    width = WIDTH

    def __init__(self, in_features=OBS):
        super().__init__()
        self.frozen = nn.Linear(in_features, WIDTH).requires_grad_(False)
        self.learns = nn.Linear(WIDTH, WIDTH)
        self.spare = nn.Linear(2, 2)

    def forward(self, rows):
        return torch.tanh(self.learns(self.frozen(rows.float())))


def with_encoder(networks):
    networks.encoder = Partly()
    networks.target_encoder = copy.deepcopy(networks.encoder).requires_grad_(False)
    return networks


def value_networks(layers):
    networks = QNetworks(layers, Mean(), ACTIONS)
    networks.encoder = Flat()
    return networks


def changes_since(before, networks):
    """Return the largest change of each parameter by name."""
    return {name: float((value - before[name]).abs().max()) for name, value in networks.state_dict().items()}


def learned(update, discrete):
    """Make four updates and return the largest change of each parameter by name."""
    before = copy.deepcopy(update.networks.state_dict())
    for i in range(4):
        rows = batch(i, discrete=discrete).map(lambda column: column.float() if column.is_floating_point() else column)
        update.update(Batch(rows, torch.ones(N)), rng())
    return changes_since(before, update.networks)


def assert_partly(changes, of):
    """Check that only the layer that learns has changed in the modules whose names contain `of`."""
    found = {name: change for name, change in changes.items() if of in name}
    assert any(".learns." in name for name in found)
    for name, change in found.items():
        if ".frozen." in name or ".spare." in name:
            assert change == 0, name
        elif ".learns." in name:
            assert change > 0, name


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_encoders_of_actors_and_critics(algorithm):
    kind, update_class, settings = ALGORITHMS[algorithm]
    networks = with_encoder(kind(WIDTH, ACTIONS, (8,)))
    changes = learned(update_class(networks, **settings), algorithm == "discrete SAC")
    assert_partly(changes, "encoder")
    assert changes["encoder.learns.weight"] > changes["target_encoder.learns.weight"] > 0


@pytest.mark.parametrize("algorithm", ["SAC", "TD3"])
def test_layers_of_actors_and_critics(algorithm):
    kind, update_class, settings = ALGORITHMS[algorithm]
    networks = kind(OBS, ACTIONS, (8,))
    list_actor_and_critics(networks, {"actor": [MINE, "Linear"], "critic": [MINE, "Linear"]})
    changes = learned(update_class(networks, **settings), discrete=False)
    for name in ("actor", "critics", "targets"):
        assert_partly(changes, f"{name}.")


@pytest.mark.parametrize("optimizer", ["Adam", "RMSprop"])
def test_encoders_and_layers_of_value_networks(optimizer):
    networks = with_encoder(value_networks(OneStream(WIDTH, ACTIONS, 1, (8,))))
    changes = learned(DQNUpdate(networks, optimizer=optimizer, target_update_period=1, tau=0.5), discrete=True)
    assert_partly(changes, "encoder")
    networks = value_networks(ListedValues({"q": [MINE, "Linear"]}, OBS, ACTIONS, 1))
    changes = learned(DQNUpdate(networks, optimizer=optimizer, target_update_period=1, tau=0.5), discrete=True)
    assert_partly(changes, "actor.layers")
    assert_partly(changes, "targets.")


class OfOtherWidth(Partly):
    width = WIDTH + 1

    def __init__(self, space):
        super().__init__(gym.spaces.flatdim(space))


class Normalizing(OfOtherWidth):
    width = WIDTH

    def __init__(self, space, evaluates=False):
        super().__init__(space)
        self.norm = nn.BatchNorm1d(WIDTH)
        if evaluates:
            self.norm.eval()

    def forward(self, rows):
        return self.norm(super().forward(rows))


class Nothing(Partly):
    def __init__(self, space):
        super().__init__()

    def forward(self, rows):
        return None


def test_encoders_are_checked():
    space = gym.spaces.Box(2.0, 3.0, (OBS,), np.float64)
    for body, message in {
        f"{__name__}:OfOtherWidth": r"returns features of shape \(2, 7\) for 2 obs.*expected \(2, 8\), as",
        f"{__name__}:Nothing": r"Nothing' returns a NoneType; expected a tensor \(n, 7\)",
        f"{__name__}:Normalizing": "contains BatchNorm1d, which is not supported; expected LayerNorm, or BatchN",
        "nature": "encoder is 'nature' and no observation is an image .*; expected 'auto' or",
    }.items():
        with pytest.raises(ValueError, match=message):
            make_encoder(space, body=body)
    _, width = make_encoder(space, body={"type": f"{__name__}:Normalizing", "evaluates": True})
    assert width == WIDTH


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (gym.spaces.Box(2.0, 3.0, (2,), np.float64), torch.full((2, 2), 2.0)),
        (gym.spaces.Box(-np.inf, np.inf, (1, 2)), torch.zeros(2, 1, 2)),
        (gym.spaces.Discrete(3, start=-7), torch.tensor([-7, -7])),
        (gym.spaces.MultiDiscrete([3, 4]), torch.zeros(2, 2, dtype=torch.int64)),
        (gym.spaces.MultiBinary(3), torch.zeros(2, 3, dtype=torch.int8)),
        (gym.spaces.Tuple([gym.spaces.Discrete(2)]), {"0": torch.zeros(2, dtype=torch.int64)}),
    ],
)
def test_the_example_of_a_space_is_stored_as_observations_are(space, expected):
    torch.testing.assert_close(make_example(space), expected, rtol=0, atol=0)


def test_encoders_of_policies_with_a_value():
    networks = unroll_networks(encoder=Partly())
    networks.actor = type(networks.actor)(WIDTH, ACTIONS, [16])
    before = copy.deepcopy(networks.state_dict())
    IMPALAUpdate(networks).update(unrolls())
    assert_partly(changes_since(before, networks), "encoder")
