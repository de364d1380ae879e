"""The updates of TD3 and DDPG compared with the papers' formulas."""

import copy
import math

import pytest
import torch
from torch import nn

from interreplay.learning.actor_critic.td3 import DeterministicNetworks, TD3Update
from interreplay.learning.settings import DDPGSettings, TD3Settings
from tests.learning.actor_critic.test_sac import plain_q
from tests.learning.batches import ACTIONS, OBS, N, batch, learn, rng
from tests.learning.plain_torch import plain_network

pytestmark = pytest.mark.usefixtures("float64_rows")

TAU = 0.01
ALL = torch.ones(N, dtype=torch.float64)
KINDS = {"TD3": TD3Settings(target_policy_noise=0.3, target_noise_clip=0.4), "DDPG": DDPGSettings(critic_l2=0.0)}


def make(kind="TD3", seed=0, **settings):
    torch.manual_seed(seed)
    networks = DeterministicNetworks(OBS, ACTIONS, (16, 8), critics=2 if kind == "TD3" else 1).double()
    # Targets with different weights, so that no test passes by confusing networks.
    for parameter in [*networks.targets.parameters(), *networks.target_actor.parameters()]:
        parameter.data += 0.1 * torch.randn_like(parameter)
    return networks, TD3Update(networks, settings=KINDS[kind], **{"tau": TAU} | settings)


def plain_policy(actor, obs):
    return torch.tanh(plain_network(actor.body, 0, obs))


def plain_target(kind, networks, rows, seed=7):
    """r + discounts·min_j Q'_j(s', a'), a' with TD3's clipped noise."""
    actions = plain_policy(networks.target_actor, rows.next_obs)
    if kind == "TD3":
        noise = 0.3 * torch.randn((N, ACTIONS), generator=rng(seed), dtype=torch.float64)
        actions = (actions + noise.clamp(-0.4, 0.4)).clamp(-1, 1)
    z = torch.cat([rows.next_obs, actions], 1)
    values = torch.stack([plain_q(networks.targets, j, z) for j in range(networks.critics.count)]).min(0).values
    return rows.rewards + rows.discounts * values


def plain_errors(kind, networks, rows, seed=7):
    target = plain_target(kind, networks, rows, seed).detach()
    z = torch.cat([rows.obs, rows.actions], 1)
    return [plain_q(networks.critics, j, z) - target for j in range(networks.critics.count)]


def plain_huber(errors, delta):
    return nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none", delta=delta)


def plain_actor_loss(networks, rows):
    return -plain_q(networks.critics, 0, torch.cat([rows.obs, plain_policy(networks.actor, rows.obs)], 1)).mean()


@pytest.mark.parametrize("huber_delta", [None, 0.3])
@pytest.mark.parametrize("kind", ["TD3", "DDPG"])
def test_losses_and_four_steps_equal_the_plain_formulas_and_adam(kind, huber_delta):
    """With TD3 the actor and all targets move in the second and the fourth; L2 terms are gradients c·θ."""
    settings = {"actor_lr": 1e-2, "critic_lr": 2e-2, "actor_l2": 0.03, "critic_l2": 0.05}
    networks, update = make(kind, huber_delta=huber_delta, **settings)
    rows, weights = batch(), torch.rand(N, dtype=torch.float64)
    reference = copy.deepcopy(networks)
    critic = torch.optim.Adam(reference.critics.parameters(), lr=2e-2)
    actor = torch.optim.Adam(reference.actor.parameters(), lr=1e-2)
    for i in range(4):
        mean_errors, report = learn(update, rows, weights, rng(i))
        found = dict(zip(update.metrics, report.tolist(), strict=True))
        errors, target = plain_errors(kind, reference, rows, i), plain_target(kind, reference, rows, i)
        assert torch.allclose(mean_errors, sum(errors) / len(errors), rtol=1e-9)
        assert math.isclose(found["q_mean"], torch.stack([d + target for d in errors]).mean().item(), rel_tol=1e-9)
        squared = (lambda d: d**2) if huber_delta is None else (lambda d: 2 * plain_huber(d, huber_delta))
        loss = sum((weights * squared(d)).mean() for d in errors)
        assert math.isclose(found["critic_loss"], loss.item(), rel_tol=1e-9)
        squares = sum(p.square().sum() for p in reference.critics.parameters())
        critic.zero_grad()
        (loss + 0.05 * 0.5 * squares).backward()
        critic.step()
        if i == 0:  # Adam's first moment is a tenth of the first gradient, L2 term included
            for mine, theirs in zip(networks.critics.parameters(), reference.critics.parameters(), strict=True):
                assert torch.allclose(update.optimizers["critic"].state[mine]["exp_avg"], 0.1 * theirs.grad, rtol=1e-9)
        if kind == "TD3" and i % 2 == 0:
            continue
        squares = sum(p.square().sum() for p in reference.actor.parameters())
        actor.zero_grad()
        loss = plain_actor_loss(reference, rows)  # evaluated with the critics after their step
        assert math.isclose(found["actor_loss"], loss.item(), rel_tol=1e-9)
        (loss + 0.03 * 0.5 * squares).backward()
        actor.step()
        if i == (1 if kind == "TD3" else 0):
            for mine, theirs in zip(networks.actor.parameters(), reference.actor.parameters(), strict=True):
                assert torch.allclose(update.optimizers["actor"].state[mine]["exp_avg"], 0.1 * theirs.grad, rtol=1e-6)
        for targets, sources in ((reference.targets, reference.critics), (reference.target_actor, reference.actor)):
            for t, s in zip(targets.parameters(), sources.parameters(), strict=True):
                t.data.mul_(1 - TAU).add_(TAU * s.data)
    torch.testing.assert_close(networks.state_dict(), reference.state_dict(), rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize("weighted", [True, False])
def test_behavior_cloning_is_the_loss_of_td3_bc(weighted):
    """−λ·mean(v·Q) + mean(v·(π(s) − a)²), λ = α / mean|Q| a constant: loss and four steps of Adam, in float64."""
    networks, update = make(policy_delay=1, bc_alpha=2.5, actor_lr=1e-2)
    rows, v = batch(), 0.5 + torch.rand(N, dtype=torch.float64)
    v = v / v.mean() if weighted else None
    reference = copy.deepcopy(networks.actor)
    optimizer = torch.optim.Adam(reference.parameters(), lr=1e-2)
    for i in range(4):
        _, report = learn(update, rows, ALL, rng(i), v)
        actions = plain_policy(reference, rows.obs)
        values = plain_q(networks.critics, 0, torch.cat([rows.obs, actions], 1))
        scale = 2.5 / (sum(abs(value) for value in values.tolist()) / N)
        share = torch.ones(N, dtype=torch.float64) if v is None else v
        loss = (share.unsqueeze(1) * (actions - rows.actions) ** 2).mean() - scale * (share * values).mean()
        assert math.isclose(report[update.metrics.index("actor_loss")].item(), loss.item(), rel_tol=1e-9)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(networks.actor.state_dict(), reference.state_dict(), rtol=1e-7, atol=1e-11)


def test_ddpg_draws_nothing_and_td3_with_settings_of_ddpg_is_ddpg():
    networks, update = make("DDPG")
    other, twin = copy.deepcopy(networks), rng()
    td3 = TD3Update(other, settings=TD3Settings(n_critics=1, policy_delay=1, target_policy_noise=0.0), tau=TAU)
    for optimizer in (*update.optimizers.values(), *td3.optimizers.values()):
        optimizer.param_groups[0]["lr"] = 1e-3
    for i in range(3):
        learn(update, batch(i), ALL, twin)
        learn(td3, batch(i), ALL, rng(i))
    assert torch.equal(twin.get_state(), rng().get_state())
    assert all(map(torch.equal, networks.parameters(), other.parameters()))


def test_views_are_averaged_in_predictions_and_targets():
    rows, m = batch(), 3
    g = torch.Generator().manual_seed(5)
    views = {f"views_{k}": torch.randn(N, m, OBS, generator=g) for k in ("obs", "next_obs")}
    networks, update = make("DDPG")
    networks.float()
    rows = rows.map(lambda c: c.float() if c.is_floating_point() else c).replace(extras=views)
    before = copy.deepcopy(networks)
    errors, _ = learn(update, rows, torch.ones(N), rng())
    expected = []
    for i in range(N):
        next_obs, obs = views["views_next_obs"][i], views["views_obs"][i]
        z2 = torch.cat([next_obs, plain_policy(before.target_actor, next_obs)], 1)
        target = rows.rewards[i] + rows.discounts[i] * plain_q(before.targets, 0, z2).mean()
        z = torch.cat([obs, rows.actions[i].expand(m, -1)], 1)
        expected.append(plain_q(before.critics, 0, z).mean() - target)
    assert torch.allclose(errors, torch.stack(expected), atol=1e-5)


def test_small_last_layers():
    networks = DeterministicNetworks(OBS, ACTIONS, (400, 300), critics=1, last_bound=3e-3)
    obs = torch.randn(100, OBS)
    actions = networks.actor(obs)
    values = networks.critics.outputs(torch.cat([obs, actions], 1)).squeeze(-1)
    assert actions.abs().max() < 0.1 and values.abs().max() < 0.1
    assert 2e-3 < networks.actor.body.weights[-1].abs().max() <= 3e-3
    assert torch.equal(networks.targets.weights[-1], networks.critics.weights[-1])
