"""The SAC update compared with the paper's formulas in float64."""

import copy
import math

import pytest
import torch
from torch.distributions import Normal

from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate
from tests.learning.batches import ACTIONS, OBS, N, batch, learn
from tests.learning.plain_torch import plain_network

pytestmark = pytest.mark.usefixtures("float64_rows")

TAU = 0.01


def make(seed=0, **settings):
    torch.manual_seed(seed)
    networks = SACNetworks(OBS, ACTIONS, (16, 8), initial_alpha=0.3).double()
    return networks, SACUpdate(networks, target_entropy=-3.0, tau=TAU, **settings)


def plain_q(critics, j, x):
    return plain_network(critics, j, x)[:, 0]


def plain_policy(actor, obs, noise):
    x = plain_network(actor.body, 0, obs)
    mean, log_std = x[:, :ACTIONS], x[:, ACTIONS:].clamp(-20, 2)
    u = mean + log_std.exp() * noise
    a = torch.tanh(u)
    log_prob = Normal(mean, log_std.exp()).log_prob(u).sum(1) - torch.log1p(-(a**2)).sum(1)
    return a, log_prob


def noises(rng_seed):
    g = torch.Generator().manual_seed(rng_seed)
    return [torch.randn((N, ACTIONS), generator=g, dtype=torch.float64) for _ in range(2)]


def plain_loss(errors, huber_delta):
    """Return Huber's loss of errors."""
    if huber_delta is None:
        return 0.5 * errors**2
    return torch.where(errors.abs() <= huber_delta, 0.5 * errors**2, huber_delta * (errors.abs() - 0.5 * huber_delta))


@pytest.mark.parametrize("huber_delta", [None, 0.5])
def test_losses_and_steps_equal_the_plain_formulas_and_adam(huber_delta):
    rates = {"actor_lr": 1e-2, "critic_lr": 2e-2, "alpha_lr": 3e-2}
    networks, update = make(huber_delta=huber_delta, **rates)
    rows, weights = batch(), torch.rand(N, dtype=torch.float64)
    reference = copy.deepcopy(networks)
    mean_errors, report = learn(update, rows, weights, torch.Generator().manual_seed(7))
    obs, next_obs, noise = rows.obs.double(), rows.next_obs.double(), noises(7)
    alpha = reference.log_alpha.exp().detach()

    with torch.no_grad():
        a2, logp2 = plain_policy(reference.actor, next_obs, noise[0])
        z2 = torch.cat([next_obs, a2], 1)
        value = torch.minimum(plain_q(reference.targets, 0, z2), plain_q(reference.targets, 1, z2)) - alpha * logp2
        target = rows.rewards + rows.discounts * value
    optimizer = torch.optim.Adam(reference.critics.parameters(), lr=2e-2)
    z = torch.cat([obs, rows.actions], 1)
    errors = [plain_q(reference.critics, j, z) - target for j in range(2)]
    assert torch.allclose(mean_errors, (errors[0] + errors[1]) / 2, rtol=1e-9)
    critic_loss = sum((weights * plain_loss(e, huber_delta)).mean() for e in errors)
    critic_loss.backward()
    optimizer.step()
    critic_gradients = {q: q.grad.clone() for q in reference.critics.parameters()}
    optimizer = torch.optim.Adam(reference.actor.parameters(), lr=1e-2)
    a, logp = plain_policy(reference.actor, obs, noise[1])
    za = torch.cat([obs, a], 1)
    q = torch.minimum(plain_q(reference.critics, 0, za), plain_q(reference.critics, 1, za))
    actor_loss = (alpha * logp - q).mean()  # evaluated with the critics after their step
    actor_loss.backward()
    optimizer.step()
    optimizer = torch.optim.Adam([reference.log_alpha], lr=3e-2)
    reference.log_alpha.grad = None
    alpha_loss = (-reference.log_alpha * (logp.detach() - 3.0)).mean()
    alpha_loss.backward()
    optimizer.step()
    for found, loss in zip(report.tolist(), (critic_loss, actor_loss, alpha_loss), strict=False):
        assert math.isclose(found, loss.item(), rel_tol=1e-9)
    for t, s in zip(reference.targets.parameters(), reference.critics.parameters(), strict=True):
        t.data.mul_(1 - TAU).add_(TAU * s.data)
    torch.testing.assert_close(networks.state_dict(), reference.state_dict(), rtol=1e-7, atol=1e-12)
    # A step of Adam does not depend on the norm of a gradient; its first moment is a tenth of it.
    for mine, theirs in ((networks.critics, reference.critics), (networks.actor, reference.actor)):
        optimizer = update.optimizers["critic" if mine is networks.critics else "actor"]
        for p, q in zip(mine.parameters(), theirs.parameters(), strict=True):
            gradient = critic_gradients.get(q, q.grad)
            assert torch.allclose(optimizer.state[p]["exp_avg"], 0.1 * gradient, rtol=1e-9, atol=1e-15)


def test_views_are_averaged_in_predictions_and_targets():
    rows, m = batch(), 3
    g = torch.Generator().manual_seed(5)
    views = {f"views_{k}": torch.randn(N, m, OBS, generator=g) for k in ("obs", "next_obs")}
    networks, update = make()
    networks.float()
    rows = rows.map(lambda c: c.float() if c.is_floating_point() else c).replace(extras=views)
    before = copy.deepcopy(networks)
    errors, _ = learn(update, rows, torch.ones(N), torch.Generator().manual_seed(7))
    noise = torch.randn((N * m, ACTIONS), generator=torch.Generator().manual_seed(7)).reshape(N, m, ACTIONS)
    alpha = before.log_alpha.exp().detach()
    expected = []
    for i in range(N):
        a2, logp = plain_policy(before.actor, views["views_next_obs"][i], noise[i])
        z2 = torch.cat([views["views_next_obs"][i], a2], 1)
        value = torch.minimum(plain_q(before.targets, 0, z2), plain_q(before.targets, 1, z2)) - alpha * logp
        target = rows.rewards[i] + rows.discounts[i] * value.mean()
        z = torch.cat([views["views_obs"][i], rows.actions[i].expand(m, -1)], 1)
        expected.append(torch.stack([plain_q(before.critics, j, z).mean() - target for j in range(2)]).mean())
    assert torch.allclose(errors, torch.stack(expected), atol=1e-5)
