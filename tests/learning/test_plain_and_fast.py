"""The updates with gradients by hand against the plain ones that define them, over 50 updates in float64."""

import copy
import importlib

import pytest
import torch

from interreplay.learning.ddpg import DDPGUpdate, PlainDDPGUpdate
from interreplay.learning.deterministic import DeterministicNetworks
from interreplay.learning.discrete_sac import DiscreteSACNetworks, DiscreteSACUpdate, PlainDiscreteSACUpdate
from interreplay.learning.networks import BatchedMLP
from interreplay.learning.sac import PlainSACUpdate, SACNetworks, SACUpdate
from interreplay.learning.td3 import PlainTD3Update, TD3Update
from interreplay.learning.tqc import PlainTQCUpdate, TQCNetworks, TQCUpdate
from tests.learning.batches import ACTIONS, OBS, N, batch, learn

UPDATES, HIDDENS, WIDTH = 50, (16, 8), 7
ALGORITHMS = {
    "SAC": (SACNetworks, SACUpdate, PlainSACUpdate, {"target_entropy": -3.0, "alpha_lr": 3e-3}),
    "discrete SAC": (DiscreteSACNetworks, DiscreteSACUpdate, PlainDiscreteSACUpdate, {"target_entropy": 0.9}),
    "TQC": (TQCNetworks, TQCUpdate, PlainTQCUpdate, {"target_entropy": -3.0}),
    "TD3": (DeterministicNetworks, TD3Update, PlainTD3Update, {}),
    "DDPG": (DeterministicNetworks, DDPGUpdate, PlainDDPGUpdate, {}),
}
EXTRAS = {"actor_l2": 0.01, "critic_l2": 0.02, "huber_delta": 0.3, "grad_clip": 0.2}
CASES = {  # settings of the update, views per row, an encoder that learns, row weights
    "defaults": ({}, 0, False, False),
    "loss extras": (EXTRAS, 0, False, True),
    "views": ({"tau": 0.05}, 3, False, True),
    "encoder": ({"grad_clip": 0.5}, 0, True, False),
    "tanh": ({"activation": "tanh"}, 0, False, True),
    "clipped values": ({"grad_clip": 0.01, "grad_clip_by": "value"}, 0, False, False),
    "clipped layers": ({"grad_clip": 0.05, "grad_clip_by": "norm"}, 0, True, False),
}
MODULES = ("sac", "tqc", "discrete_sac", "td3", "ddpg", "fast.sac", "fast.discrete_sac", "fast.deterministic")


@pytest.fixture(autouse=True)
def keep_float64(monkeypatch):
    """Observations are float32 to the networks otherwise."""
    from interreplay.learning.update import views

    def float64_views(rows, encoder):
        if "views_obs" not in rows.extras:
            return views(rows, encoder)
        obs, next_obs = (rows.extras[f"views_{name}"] for name in ("obs", "next_obs"))
        return obs.flatten(0, 1), next_obs.flatten(0, 1), obs.shape[1]

    monkeypatch.setattr("interreplay.learning.encoders.Flat.forward", lambda self, obs: obs)
    for name in MODULES:
        monkeypatch.setattr(importlib.import_module(f"interreplay.learning.{name}"), "views", float64_views)


def make(algorithm, encoder=False, activation="relu"):
    torch.manual_seed(0)
    kind, *_ = ALGORITHMS[algorithm]
    networks = kind(WIDTH if encoder else OBS, ACTIONS, HIDDENS)
    for layers in networks.modules():
        if isinstance(layers, BatchedMLP):
            layers.activation = activation
    if encoder:
        networks.encoder = torch.nn.Sequential(torch.nn.Linear(OBS, WIDTH), torch.nn.Tanh())
        networks.target_encoder = copy.deepcopy(networks.encoder).requires_grad_(False)
    return networks.double()


def given(i, algorithm, views, weighted):
    """The rows and weights of update i."""
    g, rows = torch.Generator().manual_seed(100 + i), batch(i, discrete=algorithm == "discrete SAC")
    uniform = lambda: torch.rand(N, generator=g, dtype=torch.float64)
    if views:
        extras = {f"views_{k}": torch.randn(N, views, OBS, generator=g).double() for k in ("obs", "next_obs")}
        rows = rows.replace(extras=extras)
    return rows, uniform(), 2.0 * uniform() if weighted else None


def state_of(update):
    """All that is learned and remembered, by name."""
    found = {f"networks {name}": value for name, value in update.networks.state_dict().items()}
    for name, optimizer in update.optimizers.items():
        for i, parameter in enumerate(optimizer.param_groups[0]["params"]):
            found |= {f"{name} {key} {i}": value for key, value in optimizer.state[parameter].items()}
    return found


def assert_equal(fast, plain):
    mine, theirs = state_of(fast), state_of(plain)
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        torch.testing.assert_close(value, theirs[name], rtol=1e-9, atol=1e-11, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fifty_updates_are_equal(algorithm, case):
    settings, views, encoder, weighted = CASES[case]
    _, fast_kind, plain_kind, own = ALGORITHMS[algorithm]
    settings = {**own, **settings}
    activation = settings.pop("activation", "relu")
    fast, plain = (kind(make(algorithm, encoder, activation), **settings) for kind in (fast_kind, plain_kind))
    rngs = [torch.Generator().manual_seed(7) for _ in range(2)]
    for i in range(UPDATES):
        rows, weights, row_weights = given(i, algorithm, views, weighted)
        mine, theirs = (
            learn(update, rows, weights, rng, row_weights) for update, rng in zip((fast, plain), rngs, strict=True)
        )
        for ours, defined in zip(mine, theirs, strict=True):
            torch.testing.assert_close(ours, defined, rtol=1e-9, atol=1e-11)
            assert not defined.requires_grad
    assert_equal(fast, plain)
    assert fast.state_dict().keys() == plain.state_dict().keys()
    assert fast.state_dict().get("updates") == plain.state_dict().get("updates")
    before = make(algorithm, encoder).state_dict()
    learned = {name for name, value in fast.networks.state_dict().items() if not torch.equal(value, before[name])}
    assert learned == set(before), "every network moved"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_continues_where_the_other_stopped(algorithm):
    """Networks and optimizers of a checkpoint serve either."""
    _, *kinds, own = ALGORITHMS[algorithm]
    ends = []
    for order in (kinds, kinds[::-1]):
        networks, states = make(algorithm), None
        for kind in order:
            update = kind(networks, **own)
            if states is not None:
                update.load_state_dict(states.pop("update"))
                for name, state in states.items():
                    update.optimizers[name].load_state_dict(copy.deepcopy(state))
            for i in range(5):
                rows, weights, row_weights = given(i, algorithm, 0, False)
                learn(update, rows, weights, torch.Generator().manual_seed(i), row_weights)
            states = {name: optimizer.state_dict() for name, optimizer in update.optimizers.items()}
            states["update"] = update.state_dict()
        ends.append(update)
    assert_equal(*ends)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_row_weights_of_shape_n_1_are_refused(algorithm):
    _, *kinds, own = ALGORITHMS[algorithm]
    rows, weights, _ = given(0, algorithm, 0, False)
    for kind in kinds:
        with pytest.raises(ValueError, match=r"weights have shape \(32, 1\); expected \(32,\)"):
            learn(kind(make(algorithm), **own), rows, weights, torch.Generator(), torch.ones(N, 1))
