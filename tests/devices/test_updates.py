"""Updates on another device equal those on the CPU and never wait for the device."""

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest
import torch
from torch import Tensor

from interreplay.learning.listed.networks import list_actor_and_critics
from interreplay.learning.networks.between_layers import Dropout
from interreplay.learning.networks.encoders import make_encoder
from interreplay.learning.policy_gradient.impala import IMPALAUpdate
from interreplay.learning.policy_gradient.unroll_settings import IMPALASettings
from interreplay.learning.update import Batch
from interreplay.learning.value.dqn import DQNUpdate
from tests.devices import stand_in
from tests.devices.same_draws import HostGenerator, SameDraws
from tests.learning.actor_critic import test_crossq as of_crossq
from tests.learning.conftest import flat_float64, float64  # noqa: F401
from tests.learning.policy_gradient import test_impala as of_impala
from tests.learning.update_cases import (  # noqa: F401
    ALGORITHMS,
    CASES,
    given,
    keep_float64,
    make,
    pairs,
    settings_of,
)
from tests.learning.value import test_dqn as of_dqn

UPDATES = 6
FEW = ("defaults", "loss extras", "views", "encoder", "clipped layers", "layer norm and dropout", "their tanh")
FEW += ("subset", "subset, dropout", "least of many", "resets")


@pytest.fixture(autouse=True)
def _masks(monkeypatch):
    """Let the CPU draw dropout as a mask, as other devices do, so that both drop the same units."""
    monkeypatch.setattr(Dropout, "draw", Dropout.draw_masks)


def moved(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value


def assert_same_updates(build: Callable[[Any], Any], networks: Any, batches: list[Any], device: torch.device) -> None:
    """Learn from batches on both devices; `build` makes an update of networks, a batch is a call on its device."""
    there = build(copy.deepcopy(networks).to(device))
    here, cpu = build(networks), torch.device("cpu")
    rngs = {cpu: HostGenerator(cpu, 7), device: HostGenerator(device, 7)}
    with SameDraws():
        for learn in batches:
            mine = learn(here, cpu, rngs[cpu])
            given_there = learn(there, device, rngs[device])
            assert given_there.errors.device.type == given_there.metrics.device.type == device.type
            for one, other in ((mine.errors, given_there.errors), (mine.metrics, given_there.metrics)):
                torch.testing.assert_close(
                    one, other.cpu(), rtol=1e-9 if one.dtype == torch.float64 else 1e-4, atol=1e-5
                )
    for name, value in here.networks.state_dict().items():
        torch.testing.assert_close(value, there.networks.state_dict()[name].cpu(), rtol=1e-4, atol=1e-5, msg=name)


def from_rows(rows: Any, *weights: Tensor | None) -> Any:
    """Return an update from rows and weights on a device, without waiting for it."""

    def learn(update: Any, device: torch.device, rng: torch.Generator) -> Any:
        batch = Batch(rows.map(lambda column: column.to(device)), *(moved(value, device) for value in weights))
        return without_waiting(lambda: update.update(batch, rng))

    return learn


def from_unrolls(unrolls: Any) -> Any:
    """Return an update from unrolls on a device, without waiting for it."""

    def learn(update: Any, device: torch.device, rng: torch.Generator) -> Any:
        batch = unrolls.to(device)
        return without_waiting(lambda: update.update(batch))

    return learn


def without_waiting(learn: Callable[[], Any]) -> Any:
    stand_in.waits.clear()
    result = learn()
    assert not stand_in.waits, stand_in.waits
    return result


def prepared(algorithm: str, case: str, updates: int) -> tuple[Any, Callable[[Any], Any], list[Any]]:
    """Return networks, a function that makes an update of networks, and the rows and weights of `updates` updates."""
    settings, views, encoder, weighted = CASES[case]
    kind = ALGORITHMS[algorithm][1]
    settings = settings_of(algorithm, settings)
    activation = settings.pop("activation", "relu")
    networks = make(algorithm, encoder, activation, settings)
    rows = [given(i, algorithm, views, weighted) for i in range(updates)]
    return networks, lambda nets: kind(nets, **settings), rows


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "case"), pairs(FEW))
def test_actors_and_critics(algorithm, case, device):
    networks, build, rows = prepared(algorithm, case, UPDATES)
    assert_same_updates(build, networks, [from_rows(*each) for each in rows], device)


@pytest.mark.slow
def test_listed_critics_with_a_subset(device):
    _, kind, own = ALGORITHMS["SAC"]
    settings = own | {"n_critics": 4, "target_subset": 2}
    networks = make("SAC", None, "relu", settings)
    layers = [{"layer": "Linear", "out_features": 8}, "ELU", "Linear"]
    list_actor_and_critics(networks, {"actor": layers, "critic": layers})
    batches = [from_rows(*given(i, "SAC", 0, False)) for i in range(UPDATES)]
    assert_same_updates(lambda nets: kind(nets, **settings), networks.double(), batches, device)


@pytest.mark.slow
@pytest.mark.parametrize("warm_up", [3, 100])
def test_crossq(warm_up, device):
    networks, update = of_crossq.make(warm_up)
    batches = [from_rows(*given(i, "SAC", 0, False)) for i in range(UPDATES)]
    assert_same_updates(lambda nets: type(update)(nets, target_entropy=-3.0), networks, batches, device)


@pytest.mark.slow
@pytest.mark.parametrize("head", of_dqn.HEADS)
@pytest.mark.parametrize("kind", of_dqn.KINDS)
def test_values(kind, head, device, flat_float64):  # noqa: F811
    networks = of_dqn.networks(head, **of_dqn.KINDS[kind])
    batches = [from_rows(*given(i, "discrete SAC", 0, False)) for i in range(UPDATES)]
    assert_same_updates(lambda nets: DQNUpdate(nets, double=True, target_update_period=2), networks, batches, device)


@pytest.mark.slow
@pytest.mark.parametrize("continuous", [False, True])
def test_unrolls(continuous, device):
    networks = of_impala.networks(continuous)
    batches = [from_unrolls(of_impala.unrolls(continuous, seed)) for seed in range(UPDATES)]
    assert_same_updates(lambda nets: IMPALAUpdate(nets, IMPALASettings(), 0.9), networks, batches, device)


def test_statistics_of_observations_in_main_memory(device):
    """The encoder of one-hot parts has tensors on the device."""
    space = gym.spaces.Dict(kind=gym.spaces.Discrete(3), position=gym.spaces.Box(-1, 1, (2,)))
    rows = {"kind": torch.tensor([0, 2, 1, 1]), "position": torch.randn(4, 2)}
    here, _ = make_encoder(space, normalize=True)
    there, _ = make_encoder(space, normalize=True)
    here.observe(rows)
    there.to(device).observe(rows)
    assert torch.equal(here.shift, there.shift.cpu()) and torch.equal(here.factor, there.factor.cpu())
