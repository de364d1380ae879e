"""The updates with gradients by hand against the plain ones that define them, over 50 updates in float64."""

import copy
import importlib
import itertools

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
    "PAL": ({"pal_alpha": 0.4}, 0, False, True),
    "encoder": ({"grad_clip": 0.5}, 0, True, False),
    "tanh": ({"activation": "tanh"}, 0, False, True),
    "clipped values": ({"grad_clip": 0.01, "grad_clip_by": "value"}, 0, False, False),
    "clipped layers": ({"grad_clip": 0.05, "grad_clip_by": "norm"}, 0, True, False),
    "layer norm": ({"critic_layer_norm": True, "grad_clip": 0.2, "grad_clip_by": "norm"}, 3, False, True),
    "dropout": ({"critic_dropout": 0.3, "actor_target": "mean"}, 0, False, True),
    "layer norm and dropout": ({"critic_layer_norm": True, "critic_dropout": 0.1, "critic_l2": 0.02}, 2, False, False),
    "their encoder": ({"critic_layer_norm": True, "critic_dropout": 0.2, "policy_delay": 4}, 0, True, True),
    "their tanh": ({"critic_layer_norm": True, "critic_dropout": 0.2, "activation": "tanh"}, 0, False, False),
    "subset": ({"n_critics": 5, "target_subset": 2, "actor_target": "mean", "policy_delay": 5}, 0, False, True),
    "subset, dropout": (
        {"n_critics": 4, "target_subset": 3, "critic_dropout": 0.1, "actor_target": "first"},
        2,
        False,
        False,
    ),
    "least of many": ({"n_critics": 4, "actor_target": "min", "weight_decay": 0.1, "policy_delay": 1}, 0, False, True),
    "resets": (
        {"reset_interval": 20, "critic_layer_norm": True, "policy_delay": 3, "weight_decay": 0.01},
        0,
        True,
        False,
    ),
}
ALL = {"n_critics": 3, "target_subset": 2, "critic_layer_norm": True, "critic_dropout": 0.1, "policy_delay": 2}
ALL |= {"actor_target": "mean", "weight_decay": 0.01, "reset_interval": 7}
OF_TD3 = {  # alone
    "cloning": ({"bc_alpha": 2.5, "grad_clip": 0.5}, 0, False, True),
    "cloning of views": ({"bc_alpha": 0.7, "actor_target": "mean", "critic_dropout": 0.1}, 3, False, False),
}
WITHOUT = {"DDPG": ("policy_delay",), "TQC": ("target_subset", "actor_target", "huber_delta", "pal_alpha")}
"""Settings that an algorithm does not have."""
MODULES = ("sac", "deterministic", "fast.sac", "fast.discrete_sac", "fast.deterministic")


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


def make(algorithm, encoder=False, activation="relu", settings=None):
    torch.manual_seed(0)
    kind, *_ = ALGORITHMS[algorithm]
    given = settings or {}
    critics = given.get("critic_layer_norm", False), given.get("critic_dropout", 0.0)
    shape = {"critics": given.get("n_critics", 2)} | dict(zip(("layer_norm", "dropout"), critics, strict=True))
    networks = kind(WIDTH if encoder else OBS, ACTIONS, HIDDENS, **shape)
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


def each_with_each():
    """All algorithms in all cases; at once those with the defaults, and every other case with one of them by turns."""
    for i, (case, algorithm) in enumerate(itertools.product(CASES, ALGORITHMS)):
        at_once = case == "defaults" or i % len(ALGORITHMS) == i // len(ALGORITHMS) % len(ALGORITHMS)
        yield pytest.param(algorithm, case, marks=[] if at_once else pytest.mark.slow, id=f"{algorithm}-{case}")
    yield from (pytest.param("TD3", case, id=f"TD3-{case}") for case in OF_TD3)


@pytest.mark.parametrize(("algorithm", "case"), each_with_each())
def test_fifty_updates_are_equal(algorithm, case):
    settings, views, encoder, weighted = (CASES | OF_TD3)[case]
    settings = {name: value for name, value in settings.items() if name not in WITHOUT.get(algorithm, ())}
    _, fast_kind, plain_kind, own = ALGORITHMS[algorithm]
    settings = {**own, **settings}
    activation = settings.pop("activation", "relu")
    fast, plain = (kind(make(algorithm, encoder, activation, settings), **settings) for kind in (fast_kind, plain_kind))
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
    before = make(algorithm, encoder, settings=settings).state_dict()
    learned = {name for name, value in fast.networks.state_dict().items() if not torch.equal(value, before[name])}
    assert learned == set(before), "every network moved"


@pytest.mark.parametrize("options", [{}, ALL], ids=["defaults", "all options"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_continues_where_the_other_stopped(algorithm, options):
    """Networks and optimizers of a checkpoint serve either."""
    _, *kinds, own = ALGORITHMS[algorithm]
    own, ends = own | {n: v for n, v in options.items() if n not in WITHOUT.get(algorithm, ())}, []
    for order in (kinds, kinds[::-1]):
        networks, states = make(algorithm, settings=own), None
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
