"""Updates on another device equal those on the CPU and never wait for the device."""

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest
import torch

from interreplay.learning.networks.between_layers import Dropout
from interreplay.learning.networks.encoders import make_encoder
from tests.devices import stand_in
from tests.devices.learners import LEARNERS, VALUES, listed_critics, values
from tests.devices.same_draws import HostGenerator, SameDraws
from tests.learning.conftest import flat_float64, float64  # noqa: F401
from tests.learning.update_cases import keep_float64  # noqa: F401

UPDATES = 6


@pytest.fixture(autouse=True)
def _masks(monkeypatch):
    """Let the CPU draw dropout as a mask, as other devices do, so that both drop the same units."""
    monkeypatch.setattr(Dropout, "draw", Dropout.draw_masks)


def assert_same_updates(networks: Any, build: Callable[[Any], Any], batches: list[Any], device: torch.device) -> None:
    """Learn from batches on both devices, on the other one without waiting for it."""
    there = build(copy.deepcopy(networks).to(device))
    here, cpu = build(networks), torch.device("cpu")
    rngs = {cpu: HostGenerator(cpu, 7), device: HostGenerator(device, 7)}
    with SameDraws():
        for batch in batches:
            mine = here.update(batch, rngs[cpu])
            moved = batch.map(lambda column: column.to(device))
            stand_in.waits.clear()
            theirs = there.update(moved, rngs[device])
            assert not stand_in.waits, stand_in.waits
            assert theirs.errors.device.type == theirs.metrics.device.type == device.type
            for one, other in ((mine.errors, theirs.errors), (mine.metrics, theirs.metrics)):
                precision = 1e-9 if one.dtype == torch.float64 else 1e-4
                torch.testing.assert_close(one, other.cpu(), rtol=precision, atol=1e-5)
    for name, value in here.networks.state_dict().items():
        torch.testing.assert_close(value, there.networks.state_dict()[name].cpu(), rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_actors_critics_and_unrolls(name, device):
    assert_same_updates(*LEARNERS[name](UPDATES), device)


@pytest.mark.slow
def test_listed_critics_with_a_subset(device):
    assert_same_updates(*listed_critics(UPDATES), device)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "head"), VALUES)
def test_values(kind, head, device, flat_float64):  # noqa: F811
    assert_same_updates(*values(kind, head, UPDATES), device)


def test_statistics_of_observations_in_main_memory(device):
    """The encoder of one-hot parts has tensors on the device."""
    space = gym.spaces.Dict(kind=gym.spaces.Discrete(3), position=gym.spaces.Box(-1, 1, (2,)))
    rows = {"kind": torch.tensor([0, 2, 1, 1]), "position": torch.randn(4, 2)}
    here, _ = make_encoder(space, normalize=True)
    there, _ = make_encoder(space, normalize=True)
    here.observe(rows)
    there.to(device).observe(rows)
    assert torch.equal(here.shift, there.shift.cpu()) and torch.equal(here.factor, there.factor.cpu())
