"""CrossQ against its definition in float64: one joint pass, no gradient through its next half."""

import copy

import pytest
import torch

from interreplay.learning.actor_critic.crossq import CrossQNetworks, CrossQUpdate
from tests.learning.batches import ACTIONS, OBS, N, batch, learn

pytestmark = pytest.mark.usefixtures("float64_rows")


def make(warm_up=0, passed=0, **settings):
    """Return networks after some training passes, so that running statistics differ from their initial values."""
    torch.manual_seed(0)
    networks = CrossQNetworks(
        OBS, ACTIONS, (16, 8), initial_alpha=0.3, critic_hiddens=(12, 10), renorm_warm_up=warm_up
    ).double()
    for _ in range(passed):
        networks.critics.outputs(torch.randn(N, OBS + ACTIONS).double() * 0.7, training=True)
        networks.actor.body.outputs(torch.randn(N, OBS).double() * 0.7, training=True)
    return networks, CrossQUpdate(networks, target_entropy=-3.0, **{"policy_delay": 1} | settings)


def passed(layers, j, x, training, warm):
    """Return the outputs ``(n, out)`` of one network by the formulas of the paper."""
    for i, norm in enumerate(layers.norms):
        running = (norm.variance[j] + 1e-3).sqrt()
        if training:
            mean = x.mean(0)
            sigma = ((x - mean).square().mean(0) + 1e-3).sqrt()
            r = (sigma / running).detach().clamp(1 / 3, 3) if warm else 1.0
            d = ((mean - norm.mean[j]) / running).detach().clamp(-5, 5) if warm else 0.0
            x = (x - mean) / sigma * r + d
        else:
            x = (x - norm.mean[j]) / running
        x = (x * norm.scale[j] + norm.bias[j]) @ layers.weights[i][j] + layers.biases[i][j]
        x = x.clamp(min=0) if i < len(layers.norms) - 1 else x
    return x


def drawn(actor, obs, noise, training=False, warm=False):
    """Return actions and log π of the squashed Gaussian."""
    mean, log_std = passed(actor.body, 0, obs, training, warm).chunk(2, dim=1)
    normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
    u = mean + normal.scale * noise
    return u.tanh(), normal.log_prob(u).sum(1) - torch.log1p(-u.tanh().square()).sum(1)


def definition(nets, rows, weights, row_weights, noise, warm, cut=True, m=1, views=None):
    """Return the critics' loss and TD errors ``(2, n)``; `cut` omits the gradient through the next half."""
    obs, next_obs = views or (rows.obs, rows.next_obs)
    repeated = rows.actions.repeat_interleave(m, 0)
    with torch.no_grad():
        actions, log_probs = drawn(nets.actor, next_obs, noise)
    joint = torch.cat([torch.cat([obs, repeated], 1), torch.cat([next_obs, actions], 1)])
    values = torch.stack([passed(nets.critics, j, joint, True, warm)[:, 0] for j in range(2)])
    now, then = values[:, : len(obs)], values[:, len(obs) :]
    least = torch.minimum(*(then.detach() if cut else then)) - nets.log_alpha.exp().detach() * log_probs
    per_row = lambda x: x.unflatten(-1, (-1, m)).mean(-1)
    errors = per_row(now) - (rows.rewards + rows.discounts * per_row(least))
    return sum((row_weights * weights * 0.5 * error.square()).mean() for error in errors), errors


@pytest.mark.parametrize(("warm_up", "done", "m"), [(100, 0, 1), (100, 30, 1), (3, 30, 1), (3, 3, 2)])
def test_losses_and_gradients_equal_the_definition(warm_up, done, m, monkeypatch):
    networks, update = make(warm_up, done)
    rows, weights, row_weights = batch(), torch.rand(N).double(), 2 * torch.rand(N).double()
    views = [
        (part[:, None] + 0.1 * torch.randn(N, m, OBS).double()).flatten(0, 1) for part in (rows.obs, rows.next_obs)
    ]
    if m > 1:
        monkeypatch.setattr("interreplay.learning.actor_critic.actor_critic.views", lambda *_: (*views, m))
    before, warm = copy.deepcopy(networks), done >= warm_up
    errors, report = learn(update, rows, weights, torch.Generator().manual_seed(7), row_weights)
    g = torch.Generator().manual_seed(7)
    noise = [torch.randn(shape, generator=g, dtype=torch.float64) for shape in ((N * m, ACTIONS), (N, ACTIONS))]
    given = {"m": m, "views": views if m > 1 else None}
    loss, expected = definition(before, rows, weights, row_weights, noise[0], warm, **given)
    assert report[0].item() == pytest.approx(loss.item(), rel=1e-10)
    assert not errors.requires_grad and not report.requires_grad
    torch.testing.assert_close(errors, expected.mean(0).detach(), rtol=1e-9, atol=1e-12)
    parameters = list(before.critics.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    uncut, _ = definition(before, rows, weights, row_weights, noise[0], warm, cut=False, **given)
    for p, gradient, other in zip(
        networks.critics.parameters(), gradients, torch.autograd.grad(uncut, parameters), strict=True
    ):  # with β₁ = .5, Adam's first moment is half of the gradient
        first = update.optimizers["critic"].state[p]["exp_avg"]
        torch.testing.assert_close(first, 0.5 * gradient, rtol=1e-7, atol=1e-13)
        assert not torch.allclose(first, 0.5 * other, rtol=1e-2), "the next half has no gradient"

    # The actor's training pass; the critics after their step, with running statistics that have seen the joint batch.
    alpha = before.log_alpha.exp().detach()
    actions, log_probs = drawn(before.actor, rows.obs, noise[1], True, warm)
    judged = torch.cat([rows.obs, actions], 1)
    values = torch.minimum(*(passed(networks.critics, j, judged, False, warm)[:, 0] for j in range(2)))
    actor_loss = (row_weights * (alpha * log_probs - values)).mean()
    assert report[1].item() == pytest.approx(actor_loss.item(), rel=1e-9)
    gradients = torch.autograd.grad(actor_loss, list(before.actor.parameters()))
    for p, gradient in zip(networks.actor.parameters(), gradients, strict=True):
        first = update.optimizers["actor"].state[p]["exp_avg"]
        torch.testing.assert_close(first, 0.5 * gradient, rtol=1e-7, atol=1e-13)
    gradient = -(row_weights * (log_probs.detach() - 3.0)).mean()
    assert report[2].item() == pytest.approx((before.log_alpha * gradient).item(), rel=1e-9)
    first = update.optimizers["alpha"].state[networks.log_alpha]["exp_avg"]
    assert first.item() == pytest.approx(0.1 * gradient.item(), rel=1e-9), "the temperature's β₁ is Adam's"


def statistics(layers):
    return torch.cat([torch.cat([norm.mean.flatten(), norm.variance.flatten()]) for norm in layers.norms])


def test_statistics_are_those_of_joint_batches_and_of_the_actors_turns():
    networks, update = make(warm_up=100, policy_delay=3)
    seen = {"critics": [], "actor": [], "log_alpha": []}
    for i in range(6):
        learn(update, batch(i), torch.ones(N).double(), torch.Generator().manual_seed(i))
        seen["critics"].append(int(networks.critics.trained))
        seen["actor"].append(int(networks.actor.body.trained))
        seen["log_alpha"].append(networks.log_alpha.item())
    assert seen["critics"] == [1, 2, 3, 4, 5, 6] and seen["actor"] == [0, 0, 1, 1, 1, 2]
    assert len(set(seen["log_alpha"])) == 3 and seen["log_alpha"][1] != seen["log_alpha"][2]
    before = statistics(networks.actor.body), statistics(networks.critics)
    rows = batch()
    networks.actor.act(rows.obs), networks.actor.draw(networks.actor.output(rows.obs), torch.Generator())
    networks.actor(rows.obs, torch.zeros(N, ACTIONS).double())
    assert torch.equal(statistics(networks.actor.body), before[0])
    assert torch.equal(statistics(networks.critics), before[1])
    assert {"critics.trained", "critics.norms.0.mean", "critics.norms.2.variance"} <= networks.state_dict().keys()


def test_critics_are_eight_times_as_wide_by_default():
    networks = CrossQNetworks(OBS, ACTIONS, (4, 3))
    assert [tuple(w.shape) for w in networks.critics.weights] == [(2, OBS + ACTIONS, 32), (2, 32, 24), (2, 24, 1)]
    assert not list(networks.targets.parameters())
    given = CrossQNetworks(OBS, ACTIONS, (4, 3), critic_hiddens=[64])
    assert [tuple(w.shape) for w in given.critics.weights] == [(2, OBS + ACTIONS, 64), (2, 64, 1)]


def test_resets_renew_statistics_and_counts():
    networks, update = make(policy_delay=1, reset_interval=3)
    for i in range(3):
        learn(update, batch(i), torch.ones(N).double(), torch.Generator().manual_seed(i))
        assert int(networks.critics.trained) == int(networks.actor.body.trained) == (i + 1) % 3
    for layers in (networks.critics, networks.actor.body):
        fresh = torch.cat([torch.cat([torch.zeros(n.mean.numel()), torch.ones(n.mean.numel())]) for n in layers.norms])
        assert torch.equal(statistics(layers), fresh.double())
        assert all(torch.equal(norm.scale, torch.ones_like(norm.scale)) for norm in layers.norms)
    assert networks.log_alpha.exp().item() == pytest.approx(0.3, rel=1e-6)
    learn(update, batch(3), torch.ones(N).double(), torch.Generator().manual_seed(3))
    assert update.optimizers["critic"].state[networks.critics.weights[0]]["step"] == 1
