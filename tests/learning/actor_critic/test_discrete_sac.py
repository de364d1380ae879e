"""The update of discrete SAC against the paper's formulas in float64, and the actor's draws."""

import copy
import math

import pytest
import torch

from interreplay.learning.actor_critic.discrete_sac import CategoricalActor, DiscreteSACNetworks, DiscreteSACUpdate
from interreplay.learning.networks.optimizers import polyak
from tests.learning.batches import ACTIONS, OBS, N, batch, learn
from tests.learning.plain_torch import plain_network

pytestmark = pytest.mark.usefixtures("float64_rows")

TAU = 0.01
TARGET = 0.9


def make(seed=0, **settings):
    torch.manual_seed(seed)
    networks = DiscreteSACNetworks(OBS, ACTIONS, (16, 8), initial_alpha=0.3).double()
    return networks, DiscreteSACUpdate(networks, target_entropy=TARGET, tau=TAU, **settings)


def plain_losses(networks, before, rows, weights, v):
    """Return the losses of the critics with networks `before`, and of actor and temperature with `networks`."""
    alpha = before.log_alpha.exp().detach()
    with torch.no_grad():
        p2 = plain_network(before.actor.body, 0, rows.next_obs).softmax(1)
        q2 = torch.minimum(*(plain_network(before.targets, j, rows.next_obs) for j in (0, 1)))
        target = rows.rewards + rows.discounts * (p2 * (q2 - alpha * p2.log())).sum(1)
    q = [plain_network(before.critics, j, rows.obs)[torch.arange(N), rows.actions] for j in (0, 1)]
    critic = sum((v * weights * 0.5 * (values - target) ** 2).mean() for values in q)
    p = plain_network(before.actor.body, 0, rows.obs).softmax(1)
    with torch.no_grad():
        lowest = torch.minimum(*(plain_network(networks.critics, j, rows.obs) for j in (0, 1)))
    actor = (v * (p * (alpha * p.log() - lowest)).sum(1)).mean()
    entropy_term = (p * p.log()).sum(1).detach()
    temperature = -(before.log_alpha * v * (entropy_term + TARGET)).mean()
    return critic, actor, temperature, torch.stack(q) - target


@pytest.mark.parametrize("weighted", [False, True])
def test_losses_and_steps_equal_adam_on_plain_formulas(weighted):
    networks, update = make(actor_lr=1e-3, critic_lr=2e-3, alpha_lr=3e-3)
    before, rows, g = copy.deepcopy(networks), batch(discrete=True), torch.Generator().manual_seed(3)
    weights = torch.rand(N, generator=g, dtype=torch.float64)
    row_weights = torch.rand(N, generator=g, dtype=torch.float64) if weighted else None
    errors, report = learn(update, rows, weights, torch.Generator(), row_weights)
    v = torch.ones(N, dtype=torch.float64) if row_weights is None else row_weights
    critic, actor, temperature, plain_errors = plain_losses(networks, before, rows, weights, v)
    torch.testing.assert_close(report[:3], torch.stack([critic, actor, temperature]).detach())
    torch.testing.assert_close(errors, plain_errors.mean(0).detach())
    stepped = copy.deepcopy(before)
    for loss, part, lr in ((critic, "critics", 2e-3), (actor, "actor", 1e-3), (temperature, "log_alpha", 3e-3)):
        of = lambda networks, part=part: (
            [networks.log_alpha] if part == "log_alpha" else list(getattr(networks, part).parameters())
        )
        for p, gradient in zip(of(stepped), torch.autograd.grad(loss, of(before)), strict=True):
            p.grad = gradient
        torch.optim.Adam(of(stepped), lr=lr).step()
    polyak(list(stepped.targets.parameters()), list(stepped.critics.parameters()), TAU)
    torch.testing.assert_close(networks.state_dict(), stepped.state_dict())


def test_equal_views_change_nothing():
    networks, update = make()
    other = copy.deepcopy(networks)
    rows = batch(discrete=True)
    pair = lambda x: torch.stack([x, x], dim=1)
    twice = rows.replace(extras={"views_obs": pair(rows.obs).float(), "views_next_obs": pair(rows.next_obs).float()})
    one = rows.replace(obs=rows.obs.float(), next_obs=rows.next_obs.float())
    networks.float(), other.float()
    weights = torch.ones(N)
    twice, one = (r.replace(rewards=r.rewards.float(), discounts=r.discounts.float()) for r in (twice, one))
    learn(DiscreteSACUpdate(networks, target_entropy=TARGET), one, weights, torch.Generator())
    learn(DiscreteSACUpdate(other, target_entropy=TARGET), twice.replace(obs=one.obs), weights, torch.Generator())
    torch.testing.assert_close(networks.state_dict(), other.state_dict(), atol=2e-6, rtol=1e-4)


def test_draws_have_the_policy_s_probabilities():
    torch.manual_seed(0)
    actor = CategoricalActor(2, 4, (8,))
    obs = torch.tensor([[3.0, -2.0]])
    probabilities = actor(obs).exp()[0]
    n = 200_000
    drawn = actor.draw(actor.output(obs.expand(n, -1)), torch.Generator().manual_seed(0))
    shares = torch.bincount(drawn, minlength=4) / n
    assert (shares - probabilities).abs().max() < 4 * 0.5 / math.sqrt(n)
    assert actor.act(obs).item() == int(probabilities.argmax())
