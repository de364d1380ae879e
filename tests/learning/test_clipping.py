"""Gradient clipping by its three rules, against loops over layers, and in the updates."""

import copy

import pytest
import torch
from builders import rows_with

from interreplay.learning.networks.encoders import Flat
from interreplay.learning.networks.normalization import NormalizedEncoder
from interreplay.learning.update import clip_gradients, views
from tests.learning.update_cases import ALGORITHMS


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
    kind, update_class, settings = ALGORITHMS[name]
    update = update_class(kind(3, 2, (8, 8)), **settings, **bounds, grad_clip_by=by)
    limits = {"actor": 0.1, "critic": bounds.get("critic_grad_clip", 0.1), "alpha": None}
    for key, optimizer in update.optimizers.items():
        parameters = optimizer.param_groups[0]["params"]
        expected = copy.deepcopy(parameters)
        for i, (parameter, copied) in enumerate(zip(parameters, expected, strict=True)):
            copied.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i))
            parameter.grad = copied.grad.clone()
        update.step(key)
        clip_gradients(expected, limits[key], by)
        for parameter, copied in zip(parameters, expected, strict=True):
            assert torch.allclose(parameter.grad, copied.grad, atol=1e-6)


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
