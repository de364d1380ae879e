"""The update of TQC compared with naive loops in float64 and with SAC's update."""

import copy

import pytest
import torch

from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate
from interreplay.learning.actor_critic.tqc import TQCNetworks, TQCUpdate, quantile_huber
from tests.learning.actor_critic.test_sac import plain_policy
from tests.learning.batches import ACTIONS, OBS, N, batch, learn
from tests.learning.plain_torch import plain_network

pytestmark = pytest.mark.usefixtures("float64_rows")

QUANTILES = 5


def make(n_critics=3, n_quantiles=QUANTILES, **settings):
    torch.manual_seed(0)
    networks = TQCNetworks(
        OBS, ACTIONS, (16, 8), initial_alpha=0.3, critics=n_critics, n_quantiles=n_quantiles
    ).double()
    with torch.no_grad():
        for targets in networks.targets.parameters():  # other atoms than the critics'
            targets.mul_(1.5)
    return networks, TQCUpdate(networks, target_entropy=-3.0, tau=0.01, **settings)


def plain_atoms(critics, x):
    """Return the atoms ``(C, n, q)`` of all critics, computed separately."""
    return torch.stack([plain_network(critics, j, x) for j in range(len(critics.weights[0]))])


def naive_loss(theta, z, kappa):
    """Return the mean over critics and pairs for one row, pair by pair."""
    total, count = 0.0, 0
    for critic in theta:
        for i, quantile in enumerate(critic):
            tau = (2 * i + 1) / (2 * len(critic))
            for atom in z:
                u = atom - quantile
                huber = 0.5 * u**2 if abs(u) <= kappa else kappa * (abs(u) - 0.5 * kappa)
                total = total + abs(tau - (1.0 if u < 0 else 0.0)) * huber / kappa
                count += 1
    return total / count


@pytest.mark.parametrize("kappa", [0.4, 1.0, 5.0])
def test_the_quantile_huber_loss_is_the_mean_over_all_pairs(kappa):
    g = torch.Generator().manual_seed(0)
    theta = torch.randn(2, 4, QUANTILES, generator=g, dtype=torch.float64, requires_grad=True)
    z = 2 * torch.randn(4, 3, generator=g, dtype=torch.float64)
    weights = torch.rand(4, generator=g, dtype=torch.float64)
    found = quantile_huber(theta, z, kappa)
    expected = torch.stack([naive_loss(theta[:, r], z[r], kappa) for r in range(4)])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    gradients = [torch.autograd.grad((weights * losses).sum(), theta)[0] for losses in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-15)


@torch.no_grad()
def naive_target(networks, rows, next_obs, noise, alpha, drop, r):
    """Return the kept atoms of row r, sorted, cut and averaged over the views ``(m, d)`` of its next observation."""
    kept = []
    for view, epsilon in zip(next_obs, noise, strict=True):
        actions, log_prob = plain_policy(networks.actor, view[None], epsilon[None])
        atoms = plain_atoms(networks.targets, torch.cat([view[None], actions], 1))
        pooled = sorted(float(atom) for critic in atoms for atom in critic[0])
        for _ in range(drop * len(atoms)):
            pooled.remove(max(pooled))
        kept.append([float(rows.rewards[r] + rows.discounts[r] * (atom - alpha * log_prob[0])) for atom in pooled])
    return torch.tensor(kept, dtype=torch.float64).mean(0)


@pytest.mark.slow
@pytest.mark.parametrize(("drop", "kappa", "m"), [(0, 1.0, 1), (2, 1.0, 1), (4, 0.3, 1), (2, 1.0, 3)])
def test_losses_and_gradients_equal_naive_loops(drop, kappa, m, monkeypatch):
    networks, update = make(drop_per_critic=drop, kappa=kappa)
    rows, weights, row_weights = batch(), torch.rand(N).double(), 2 * torch.rand(N).double()
    obs, next_obs = (torch.stack([part + 0.1 * v for v in range(m)], 1) for part in (rows.obs, rows.next_obs))
    given = lambda *_: (obs.flatten(0, 1), next_obs.flatten(0, 1), m)
    monkeypatch.setattr("interreplay.learning.actor_critic.actor_critic.views", given)
    before, alpha = copy.deepcopy(networks), networks.log_alpha.exp().item()
    errors, report = learn(update, rows, weights, torch.Generator().manual_seed(7), row_weights)

    g = torch.Generator().manual_seed(7)
    noise = [torch.randn(shape, generator=g, dtype=torch.float64) for shape in ((N * m, ACTIONS), (N, ACTIONS))]
    spread = noise[0].unflatten(0, (N, m))
    z = torch.stack([naive_target(before, rows, next_obs[r], spread[r], alpha, drop, r) for r in range(N)])
    assert z.shape == (N, 3 * (QUANTILES - drop))
    atoms = plain_atoms(before.critics, torch.cat([obs, rows.actions[:, None].expand(-1, m, -1)], 2).flatten(0, 1))
    theta = atoms.unflatten(1, (N, m)).mean(2)
    loss = sum(row_weights[r] * weights[r] * naive_loss(theta[:, r], z[r], kappa) for r in range(N)) / N
    assert report[0].item() == pytest.approx(loss.item(), rel=1e-10)
    assert torch.allclose(errors, (theta.mean(2) - z.mean(1)).mean(0), rtol=1e-10)
    optimizer = update.optimizers["critic"]
    for p, gradient in zip(
        networks.critics.parameters(), torch.autograd.grad(loss, list(before.critics.parameters())), strict=True
    ):  # Adam's first moment is a tenth of the gradient
        torch.testing.assert_close(optimizer.state[p]["exp_avg"], 0.1 * gradient, rtol=1e-8, atol=1e-14)

    # The actor's loss is evaluated with the critics after their step.
    actions, log_probs = plain_policy(before.actor, rows.obs, noise[1])
    values = plain_atoms(networks.critics, torch.cat([rows.obs, actions], 1)).mean((0, 2))
    actor_loss = (row_weights * (alpha * log_probs - values)).mean()
    assert report[1].item() == pytest.approx(actor_loss.item(), rel=1e-10)
    gradients = torch.autograd.grad(actor_loss, list(before.actor.parameters()))
    for p, gradient in zip(networks.actor.parameters(), gradients, strict=True):
        average = update.optimizers["actor"].state[p]["exp_avg"]
        torch.testing.assert_close(average, 0.1 * gradient, rtol=1e-8, atol=1e-14)
    expected = -(networks.log_alpha.new_tensor(0.3).log() * (row_weights * (log_probs - 3.0)).mean())
    assert report[2].item() == pytest.approx(expected.item(), rel=1e-6)


def test_one_quantile_of_one_critic_is_sac_with_half_the_critics_loss():
    """τ = ½ weights both signs equally, so the loss is ½·Huber's; one atom is its own minimum and mean."""
    one, tqc = make(n_critics=1, n_quantiles=1, drop_per_critic=0)
    other = SACNetworks(OBS, ACTIONS, (16, 8), initial_alpha=0.3, critics=1).double()
    other.load_state_dict(one.state_dict())
    sac = SACUpdate(other, target_entropy=-3.0, tau=0.01, huber_delta=1.0, n_critics=1)
    rows, weights = batch(), torch.rand(N).double()
    (errors, report), (expected, expected_report) = (
        learn(u, rows, weights, torch.Generator().manual_seed(1)) for u in (tqc, sac)
    )
    torch.testing.assert_close(errors, expected, rtol=1e-12, atol=1e-12)
    assert report[0].item() == pytest.approx(expected_report[0].item() / 2, rel=1e-12)
    for p, q in zip(one.critics.parameters(), other.critics.parameters(), strict=True):
        mine, theirs = tqc.optimizers["critic"].state[p]["exp_avg"], sac.optimizers["critic"].state[q]["exp_avg"]
        torch.testing.assert_close(2 * mine, theirs, rtol=1e-11, atol=1e-15)
    # Adam's first step depends on the sign of the gradient only, except for ε.
    torch.testing.assert_close(report[1:], expected_report[1:], rtol=1e-5, atol=1e-5)
