"""Algorithms with actors and critics, and cases of settings, for tests of their combinations."""

import copy
import itertools

import pytest
import torch

from interreplay.learning.actor_critic.discrete_sac import DiscreteSACNetworks, DiscreteSACUpdate
from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate
from interreplay.learning.actor_critic.td3 import DeterministicNetworks, TD3Update
from interreplay.learning.actor_critic.tqc import TQCNetworks, TQCUpdate
from interreplay.learning.networks.layers import BatchedMLP
from interreplay.learning.settings import DDPGSettings
from tests.learning.batches import ACTIONS, OBS, N, batch

HIDDENS, WIDTH = (16, 8), 7
ALGORITHMS = {
    "SAC": (SACNetworks, SACUpdate, {"target_entropy": -3.0, "alpha_lr": 3e-3}),
    "discrete SAC": (DiscreteSACNetworks, DiscreteSACUpdate, {"target_entropy": 0.9}),
    "TQC": (TQCNetworks, TQCUpdate, {"target_entropy": -3.0}),
    "TD3": (DeterministicNetworks, TD3Update, {}),
    "DDPG": (DeterministicNetworks, TD3Update, {"settings": DDPGSettings(critic_l2=0.0)}),
}
EXTRAS = {"actor_l2": 0.01, "critic_l2": 0.02, "huber_delta": 0.3, "grad_clip": 0.2}
CASES = {  # settings of the update, views per row, an encoder that learns, row weights
    "defaults": ({}, 0, False, False),
    "loss extras": (EXTRAS, 0, False, True),
    "views": ({"tau": 0.05}, 3, False, True),
    "encoder": ({"grad_clip": 0.5}, 0, True, False),
    "clipped layers": ({"grad_clip": 0.05, "grad_clip_by": "norm"}, 0, True, False),
    "layer norm and dropout": ({"critic_layer_norm": True, "critic_dropout": 0.1, "critic_l2": 0.02}, 2, False, False),
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
        {"reset_interval": 4, "critic_layer_norm": True, "policy_delay": 3, "weight_decay": 0.01},
        0,
        True,
        False,
    ),
}
RESIDUAL = ("critic_blocks", "critic_width", "actor_blocks", "actor_width")
WITHOUT = {
    "DDPG": ("policy_delay",),
    "TQC": ("target_subset", "actor_target", "critic_target", "huber_delta", "pal_alpha"),
}
"""Settings that an algorithm does not have."""


@pytest.fixture(autouse=True)
def keep_float64(monkeypatch):
    """Keep observations in float64, which networks otherwise convert to float32."""
    from interreplay.learning.update import views

    def float64_views(rows, encoder):
        if "views_obs" not in rows.extras:
            return views(rows, encoder)
        obs, next_obs = (rows.extras[f"views_{name}"] for name in ("obs", "next_obs"))
        return obs.flatten(0, 1), next_obs.flatten(0, 1), obs.shape[1]

    monkeypatch.setattr("interreplay.learning.networks.encoders.Flat.forward", lambda self, obs: obs)
    for name in ("actor_critic", "many"):
        monkeypatch.setattr(f"interreplay.learning.actor_critic.{name}.views", float64_views)


def make(algorithm, encoder=False, activation="relu", settings=None):
    torch.manual_seed(0)
    kind, *_ = ALGORITHMS[algorithm]
    given = settings or {}
    critics = given.get("critic_layer_norm", False), given.get("critic_dropout", 0.0)
    shape = {"critics": given.get("n_critics", 2)} | dict(zip(("layer_norm", "dropout"), critics, strict=True))
    shape |= {name: given[name] for name in RESIDUAL if name in given}
    networks = kind(WIDTH if encoder else OBS, ACTIONS, HIDDENS, **shape)
    for layers in networks.modules():
        if isinstance(layers, BatchedMLP):
            layers.activation = activation
    if encoder:
        networks.encoder = torch.nn.Sequential(torch.nn.Linear(OBS, WIDTH), torch.nn.Tanh())
        networks.target_encoder = copy.deepcopy(networks.encoder).requires_grad_(False)
    return networks.double()


def pairs(cases):
    """Return all algorithms with the defaults, and every other case with one algorithm in turn."""
    found = []
    for i, (case, algorithm) in enumerate(itertools.product(cases, ALGORITHMS)):
        if case == "defaults" or i % len(ALGORITHMS) == i // len(ALGORITHMS) % len(ALGORITHMS):
            found.append((algorithm, case))
    return found


def settings_of(algorithm, settings):
    """Return the algorithm's settings, and the settings of a case that it supports."""
    accepted = {name: value for name, value in settings.items() if name not in WITHOUT.get(algorithm, ())}
    return ALGORITHMS[algorithm][2] | accepted


def given(i, algorithm, views, weighted):
    """Return the rows and weights of update i."""
    g, rows = torch.Generator().manual_seed(100 + i), batch(i, discrete=algorithm == "discrete SAC")
    uniform = lambda: torch.rand(N, generator=g, dtype=torch.float64)
    if views:
        extras = {f"views_{k}": torch.randn(N, views, OBS, generator=g).double() for k in ("obs", "next_obs")}
        rows = rows.replace(extras=extras)
    return rows, uniform(), 2.0 * uniform() if weighted else None


def state_of(update):
    """Return the complete state of an update by name."""
    found = {f"networks {name}": value for name, value in update.networks.state_dict().items()}
    for name, optimizer in update.optimizers.items():
        for i, parameter in enumerate(optimizer.param_groups[0]["params"]):
            found |= {f"{name} {key} {i}": value for key, value in optimizer.state[parameter].items()}
    return found


def assert_equal(fast, plain):
    mine, theirs = state_of(fast), state_of(plain)
    assert mine.keys() == theirs.keys()
    torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-11)
