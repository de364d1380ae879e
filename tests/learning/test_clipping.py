"""Gradient clipping by its three rules, against loops over layers, and in the updates."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch
from builders import rows_with

import interreplay.rllib
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.architectures import ARCHITECTURES
from interreplay.learning.networks.encoders import Flat
from interreplay.learning.networks.normalization import NormalizedEncoder
from interreplay.learning.update import clip_gradients, views


def with_gradients(seed=0):
    """Return stacked layers of two networks, and a plain layer with its bias."""
    rng = torch.Generator().manual_seed(seed)
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((2, 3, 4), (2, 1, 4), (5, 3), (3,))]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=rng)
    return parameters


@pytest.mark.parametrize("most", [0.5, 100.0])
def test_each_rule_is_that_of_a_loop(most):
    before = [p.grad.clone() for p in with_gradients()]
    whole = torch.cat([g.flatten() for g in before]).norm()
    layers = [[g[0], g[1]] if g.ndim == 3 else [g] for g in before]
    expected = {
        "global_norm": [g * min(1.0, most / (whole + 1e-6)) for g in before],
        "value": [g.clamp(-most, most) for g in before],
        "norm": [
            torch.stack(scaled) if g.ndim == 3 else scaled[0]
            for g, parts in zip(before, layers, strict=True)
            for scaled in [[part * min(1.0, most / (part.norm() + 1e-6)) for part in parts]]
        ],
    }
    for by, expected_gradients in expected.items():
        parameters = with_gradients()
        clip_gradients(parameters, most, by)
        assert all(torch.allclose(p.grad, g, atol=1e-6) for p, g in zip(parameters, expected_gradients, strict=True)), (
            by
        )


@pytest.mark.parametrize(("name", "by"), [("SAC", "global_norm"), ("TD3", "norm"), ("TQC", "value")])
@pytest.mark.parametrize("bounds", [{"grad_clip": 0.1}, {"grad_clip": 0.1, "critic_grad_clip": 0.02}])
def test_actor_and_critics_are_clipped_separately(name, bounds, by):
    """The gradients of one update, recorded before and after clipping."""
    row = ALGORITHMS[name]
    config = getattr(interreplay.rllib, row.config)
    settings = row.settings(**bounds, grad_clip_by=by)
    model = {"matrix_dtype": "float32", "normalize_observations": False, **vars(settings), "hiddens": (8, 8)}
    space = gym.spaces.Box(-1, 1, (2,), np.float32)
    networks = ARCHITECTURES[name].make(3, space, model, False)
    networks.encoder = Flat()
    update = config.update_class(networks, settings=settings)
    plain = {key: copy.deepcopy(optimizer.param_groups[0]["params"]) for key, optimizer in update.optimizers.items()}
    for key, optimizer in update.optimizers.items():
        for i, (parameter, kept) in enumerate(zip(optimizer.param_groups[0]["params"], plain[key], strict=True)):
            gradient = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i))
            kept.grad = gradient.clone()
        loss = sum((p * k.grad).sum() for p, k in zip(optimizer.param_groups[0]["params"], plain[key], strict=True))
        loss.backward()
        update.step(key)
        most = {"actor": 0.1, "critic": bounds.get("critic_grad_clip", 0.1), "alpha": None}[key]
        clip_gradients(plain[key], most, by)
        for parameter, kept in zip(optimizer.param_groups[0]["params"], plain[key], strict=True):
            assert torch.allclose(parameter.grad, kept.grad, atol=1e-6)


def test_views_require_flat_observations():
    """Views are stored as flat observations, which an encoder of a user would not encode."""
    rows = rows_with(obs=torch.ones(6, 3))
    wide = rows.replace(extras={"views_obs": torch.ones(6, 1, 3), "views_next_obs": torch.ones(6, 1, 3)})
    with pytest.raises(ValueError, match="the encoder is Linear; expected views=1"):
        views(wide, torch.nn.Linear(3, 3))


def test_views_of_augmented_states_are_normalized_as_plain_ones_are():
    rng = torch.Generator().manual_seed(0)
    encoder = NormalizedEncoder(Flat(), torch.ones(3, dtype=torch.bool))
    encoder.observe(torch.randn(50, 3, generator=rng) * 4 + 7)
    obs, next_obs = (torch.randn(6, 3, generator=rng) for _ in range(2))
    rows = rows_with(obs=obs, next_obs=next_obs)
    wide = rows.replace(extras={"views_obs": obs.unsqueeze(1), "views_next_obs": next_obs.unsqueeze(1)})
    for plain, augmented in zip(views(rows, encoder), views(wide, encoder), strict=True):
        assert torch.equal(torch.as_tensor(plain), torch.as_tensor(augmented))


def test_views_of_single_numbers_equal_vectors_of_one_number():
    obs = torch.linspace(0.0, 1.0, 12).view(6, 2)  # two views of six observations of shape ()
    rows = rows_with(obs=obs[:, 0])
    wide = rows.replace(extras={"views_obs": obs, "views_next_obs": obs + 1})
    vectors = rows.replace(extras={"views_obs": obs.unsqueeze(2), "views_next_obs": obs.unsqueeze(2) + 1})
    for one, other in zip(views(wide, Flat()), views(vectors, Flat()), strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))
