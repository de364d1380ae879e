"""The six augmentations of S4RL and their views."""

import pytest
import torch
from builders import KINDS, identical, make
from scipy.stats import beta, kstest

from interreplay.learning.networks.encoders import Flat
from interreplay.learning.update import views
from interreplay.transitions import observation_parts
from replay_buffers import S4RL

SIX = ["mixup", "gaussian", "uniform", "scaling", "dropout", "switch"]


def drawn(augmentation: str, rows: int = 2000, kind: str = "plain", **arguments):
    buffer = S4RL(capacity=200, augmentation=augmentation, seed=0, **arguments)
    buffer.add(make(200, envs=2, **KINDS[kind]))
    sample = buffer.sample(rows)
    return sample.transitions, buffer.storage[sample.slots]


@pytest.mark.parametrize("kind", ["plain", "dict", "2-D", "float64"])
@pytest.mark.parametrize("augmentation", SIX)
@pytest.mark.parametrize("m", [1, 3])
def test_only_states_change_and_the_first_view_is_the_batch(augmentation, kind, m):
    rows, anchors = drawn(augmentation, 64, kind, views=m)
    for name in ("actions", "rewards", "terminated", "truncated", "discounts", "episode"):
        assert torch.equal(getattr(rows, name), getattr(anchors, name))
    for which in ("obs", "next_obs"):
        mine, theirs = (observation_parts(getattr(t, which)) for t in (rows, anchors))
        assert all(mine[k].shape == theirs[k].shape and mine[k].dtype == theirs[k].dtype for k in theirs)
    assert set(rows.extras) == ({"views_obs", "views_next_obs"} if m > 1 else set())
    obs, next_obs, count = views(rows, Flat())
    assert count == m and len(obs) == len(next_obs) == 64 * m
    if m > 1:
        several = obs.unflatten(0, (64, m))
        assert augmentation in ("dropout", "switch") or not torch.equal(several[:, 0], several[:, 1])
        assert torch.equal(obs.unflatten(0, (64, m))[:, 0], Flat()(rows.obs))
        assert torch.equal(next_obs.unflatten(0, (64, m))[:, 0], Flat()(rows.next_obs))


@pytest.mark.parametrize("augmentation", SIX)
def test_empty_parts_stay_empty(augmentation):
    buffer = S4RL(capacity=20, augmentation=augmentation, seed=0)
    buffer.add(make(20, obs_shape={"nothing": (0,), "state": (3,)}))
    rows = buffer.sample(8).transitions
    assert rows.obs["nothing"].shape == rows.next_obs["nothing"].shape == (8, 0)


def test_mixup_is_between_a_state_and_the_next():
    rows, anchors = drawn("mixup", 4000)
    assert torch.equal(rows.next_obs, anchors.next_obs)
    over, along = rows.obs - anchors.next_obs, anchors.obs - anchors.next_obs
    mix = (over * along).sum(1) / along.square().sum(1)
    assert torch.allclose(rows.obs, torch.lerp(anchors.next_obs, anchors.obs, mix[:, None]), atol=1e-5)
    assert (mix[anchors.terminated] - 1).abs().max() < 1e-6
    alive = mix[~anchors.terminated].double().numpy()
    alive = alive[(alive > 1e-4) & (alive < 1 - 1e-4)]  # float32 rounds the ends, where much of Beta(.4, .4) is
    low, high = beta.cdf([1e-4, 1 - 1e-4], 0.4, 0.4)
    assert kstest(alive, lambda x: (beta.cdf(x, 0.4, 0.4) - low) / (high - low)).pvalue > 1e-4


def test_additive_noise():
    for which in ("obs", "next_obs"):
        rows, anchors = drawn("gaussian", strength=0.5)
        noise = (getattr(rows, which) - getattr(anchors, which)).double().flatten().numpy()
        assert kstest(noise, "norm", args=(0, 0.5)).pvalue > 1e-4
        rows, anchors = drawn("uniform", strength=0.5)
        noise = (getattr(rows, which) - getattr(anchors, which)).double().flatten().numpy()
        assert kstest(noise, "uniform", args=(-0.5, 1.0)).pvalue > 1e-4


@pytest.mark.parametrize(("augmentation", "size"), [("gaussian", 3e-4), ("uniform", 3e-4 / 3**0.5)])
def test_default_strengths_are_those_of_the_paper(augmentation, size):
    rows, anchors = drawn(augmentation, kind="float64")
    assert float((rows.obs - anchors.obs).std()) == pytest.approx(size, rel=0.05)


def test_scaling_is_one_factor_per_state():
    rows, anchors = drawn("scaling", kind="float64")
    factors = rows.obs / anchors.obs, rows.next_obs / anchors.next_obs
    for factor in factors:
        assert torch.allclose(factor, factor[:, :1].expand_as(factor))
        assert kstest(factor[:, 0].numpy(), "uniform", args=(0.8, 0.4)).pvalue > 1e-4
    assert not torch.allclose(factors[0], factors[1])


def test_dropout_clears_one_dimension():
    rows, anchors = drawn("dropout")
    cleared = rows.obs == 0
    assert (cleared.sum(1) == 1).all()
    assert torch.equal(rows.obs[~cleared], anchors.obs[~cleared])
    assert (cleared.sum(0) > 500).all()


def test_switch_exchanges_two_dimensions():
    rows, anchors = drawn("switch")
    changed = rows.obs != anchors.obs
    assert (changed.sum(1) == 2).all()
    assert torch.equal(rows.obs.sort(dim=1).values, anchors.obs.sort(dim=1).values)
    pairs = torch.unique(changed, dim=0, return_counts=True)[1]
    assert len(pairs) == 3 and (pairs > 500).all()


def test_a_single_dimension_cannot_be_switched():
    rows, anchors = drawn("switch", kind="scalar")
    identical(rows, anchors)
