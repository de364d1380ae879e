"""IMPALA's update compared with its losses differentiated by autograd, and at the limits of each part."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from interreplay.learning.losses import PAL
from interreplay.learning.networks.distributions import Categorical, Normal
from interreplay.learning.networks.encoders import Flat
from interreplay.learning.networks.optimizers import RMSprop
from interreplay.learning.policy_gradient.impala import IMPALAUpdate
from interreplay.learning.policy_gradient.policy_value import CategoricalWithValue, NormalWithValue, PolicyValueNetworks
from interreplay.learning.policy_gradient.unroll_settings import A2CSettings, IMPALASettings
from interreplay.learning.policy_gradient.vtrace import vtrace
from interreplay.unrolls.unrolls import Unrolls

OBS, ACTIONS, T, B = 5, 3, 6, 8


def networks(continuous=False, encoder=None, **options):
    torch.manual_seed(0)
    kind = NormalWithValue if continuous else CategoricalWithValue
    nets = PolicyValueNetworks(kind(OBS, ACTIONS, [16], **options))
    nets.encoder = Flat() if encoder is None else encoder
    return nets


def unrolls(continuous=False, seed=0, fresh=None, near=None):
    """Return random unrolls, half of them replayed; with `near`, µ is the policy of these networks plus small noise."""
    rng = np.random.default_rng(seed)
    numbers = 2 * ACTIONS if continuous else ACTIONS
    obs = torch.from_numpy(rng.normal(size=(T + 1, B, OBS)).astype(np.float32))
    policy = torch.from_numpy(0.5 * rng.normal(size=(T, B, numbers)).astype(np.float32))
    if near is not None:
        with torch.no_grad():
            policy = near.actor.output(obs[:-1].flatten(0, 1)).unflatten(0, (T, B))[..., :-1] + 0.0 * policy
    actions = rng.normal(size=(T, B, ACTIONS)).astype(np.float32) if continuous else rng.integers(0, ACTIONS, (T, B))
    return Unrolls(
        obs=obs,
        actions=actions,
        rewards=rng.normal(size=(T, B)),
        terminated=rng.random((T, B)) < 0.15,
        live=rng.random((T, B)) < 0.85,
        policy=policy,
        values=rng.normal(size=(T, B)),
        fresh=np.arange(B) % 2 == 0 if fresh is None else np.full(B, fresh),
    )


def gradients(update, given):
    """Return the gradients of all parameters in an update."""
    update.differentiate(given)
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in update.parameters]


def differentiated(nets, given, s, gamma=0.9):
    """Return the gradients of the losses by their definition, by autograd through the whole networks."""
    nets = copy.deepcopy(nets)
    rows = nets.encoder(given.obs.flatten(0, 1))
    outputs = nets.actor.output(rows).unflatten(0, (T + 1, B))
    pi, values, total = outputs[:-1, :, :-1], outputs[..., -1], 0.0
    family = nets.actor.family
    logs, behavior = family.log_prob(pi, given.actions), family.log_prob(given.policy, given.actions)
    keep = None
    if s.relevance_bound is not None:
        keep = (family.kl(pi, given.policy) < s.relevance_bound).detach()
    targets, advantages = vtrace(
        logs - behavior,
        values,
        given.rewards,
        gamma * (~given.terminated).float(),
        given.live,
        keep,
        s.vtrace_rho,
        s.vtrace_c,
        s.vtrace_pg_rho,
    )
    for t in range(T):
        for b in range(B):
            if not given.live[t, b]:
                continue
            if not (keep is not None and not given.fresh[b]):
                total = total - s.entropy_coeff * family.entropy(pi[t, b])
            if keep is not None and not keep[t, b]:
                continue
            total = total - logs[t, b] * advantages[t, b]
            total = total + s.vf_loss_coeff * 0.5 * (targets[t, b] - values[t, b]) ** 2
            if not given.fresh[b]:
                total = total + s.policy_cloning * family.kl(given.policy[t, b], pi[t, b])
                total = total + s.value_cloning * (values[t, b] - given.values[t, b]) ** 2
    if s.loss == "mean":
        total = total / (T * B)
    parameters = [*nets.actor.parameters(), *nets.encoder.parameters()]
    return torch.autograd.grad(total, parameters)


def assert_same(one, other, tolerance=2e-5):
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


SETTINGS = {
    "plain": {},
    "mean": {"loss": "mean"},
    "bounds": {"vtrace_rho": 2.0, "vtrace_c": 1.3, "vtrace_pg_rho": 0.8, "vf_loss_coeff": 1.7, "entropy_coeff": 0.3},
    "clear": {"policy_cloning": 0.2, "value_cloning": 0.3},
    "laser": {"relevance_bound": 0.2, "relevance_of": "behavior", "policy_cloning": 0.2, "value_cloning": 0.3},
}


@pytest.mark.parametrize("continuous", [False, True], ids=["discrete", "continuous"])
@pytest.mark.parametrize("name", SETTINGS)
def test_gradients_are_those_of_the_losses_written_out(name, continuous):
    nets, given, s = networks(continuous), unrolls(continuous), IMPALASettings(**SETTINGS[name])
    assert_same(gradients(IMPALAUpdate(nets, s, 0.9), given), differentiated(nets, given, s))


def test_standard_deviations_as_outputs_get_the_gradients_of_autograd():
    nets, given, s = networks(continuous=True, free_log_std=False), unrolls(continuous=True), IMPALASettings()
    assert_same(gradients(IMPALAUpdate(nets, s, 0.9), given), differentiated(nets, given, s))


@pytest.mark.parametrize("shared", [True, False])
def test_an_encoder_learns_by_autograd(shared):
    nets = networks(encoder=nn.Sequential(nn.Linear(OBS, OBS), nn.Tanh()), shared=shared)
    given, s = unrolls(), IMPALASettings()
    found = gradients(IMPALAUpdate(nets, s, 0.9), given)
    assert found[-1].abs().sum() > 0
    assert_same(found, differentiated(nets, given, s))


def test_a_wide_relevance_is_v_trace_and_a_narrow_one_leaves_the_entropy_of_fresh_steps():
    nets, given = networks(), unrolls(fresh=True)
    plain = gradients(IMPALAUpdate(copy.deepcopy(nets), IMPALASettings(), 0.9), given)
    for of in ("implied", "behavior"):
        wide = IMPALASettings(relevance_bound=1e9, relevance_of=of)
        assert_same(gradients(IMPALAUpdate(copy.deepcopy(nets), wide, 0.9), given), plain, 0.0)
        narrow = IMPALASettings(relevance_bound=1e-12, relevance_of=of, policy_cloning=1.0, value_cloning=1.0)
        for fresh, left in ((False, False), (True, True)):
            batch = unrolls(fresh=fresh)
            found = gradients(IMPALAUpdate(copy.deepcopy(nets), narrow, 0.9), batch)
            assert any(g.any() for g in found) == left
            silent = IMPALASettings(relevance_bound=1e-12, relevance_of=of, entropy_coeff=0.0, policy_cloning=1.0)
            assert not any(g.any() for g in gradients(IMPALAUpdate(copy.deepcopy(nets), silent, 0.9), batch))


def test_the_policy_that_v_trace_implies():
    # min(ρ̄µ, π) ∝ (.1, .3, .2) for µ = (.1, .6, .3), π = (.5, .3, .2).
    pi, mu = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.1, 0.6, 0.3])
    least = torch.tensor([0.1, 0.3, 0.2]) / 0.6
    expected = (pi * (pi / least).log()).sum()
    family = Categorical(3)
    torch.testing.assert_close(family.kl_to_implied(pi.log(), mu.log(), 1.0), expected)
    # A bound that is never met leaves π itself; on policy so does 1.
    assert family.kl_to_implied(pi.log(), mu.log(), 1e9) == pytest.approx(0.0, abs=1e-6)
    assert family.kl_to_implied(pi.log(), pi.log(), 1.0) == pytest.approx(0.0, abs=1e-6)
    torch.testing.assert_close(family.kl(pi.log(), mu.log()), (pi * (pi / mu).log()).sum())


def test_a_loss_of_the_value_takes_live_steps_as_rows_of_one_critic():
    nets, given = networks(), unrolls()
    given = given.replace(rewards=5.0 * given.rewards)
    found = [
        gradients(IMPALAUpdate(copy.deepcopy(nets), IMPALASettings(**options), 0.9), given)
        for options in ({"vf_loss_coeff": 0.0}, {"vf_loss_coeff": 1.0, "critic_loss": {"type": "PAL", "alpha": 0.7}})
    ]
    update = IMPALAUpdate(nets, gamma=0.9)
    outputs = nets.actor.output(given.obs.flatten(0, 1)).unflatten(0, (T + 1, B))
    family = nets.actor.family
    logs = family.log_prob(outputs[:-1, :, :-1], given.actions) - family.log_prob(given.policy, given.actions)
    targets, _ = update.returns(logs.detach(), outputs[..., -1].detach(), given, None)
    errors = (targets - outputs[..., -1])[:-1][given.live]
    loss = PAL(0.7).values(errors[None]).sum()
    expected = torch.autograd.grad(loss, update.parameters)
    assert_same([with_value - without for without, with_value in zip(*found, strict=True)], expected, 2e-4)


def test_importance_weights_multiply_an_unrolls_losses():
    nets, s = networks(), IMPALASettings(entropy_coeff=0.0, policy_cloning=0.2, value_cloning=0.3)
    given = unrolls()
    whole = gradients(IMPALAUpdate(copy.deepcopy(nets), s, 0.9), given.replace(weights=torch.full((B,), 0.5)))
    assert_same(whole, [0.5 * g for g in gradients(IMPALAUpdate(copy.deepcopy(nets), s, 0.9), given)])
    some = torch.arange(B) < 3
    one = gradients(IMPALAUpdate(copy.deepcopy(nets), s, 0.9), given.replace(weights=some.float()))
    assert_same(one, gradients(IMPALAUpdate(copy.deepcopy(nets), s, 0.9), given[some]))


@pytest.mark.parametrize("size", [1, 4])
def test_normal_distributions_are_those_of_pytorch(size):
    g = torch.Generator().manual_seed(0)
    one, other = (0.3 * torch.randn(7, 2 * size, generator=g) for _ in range(2))
    actions, family = torch.randn(7, size, generator=g), Normal(size)
    normals = [torch.distributions.Normal(x[:, :size], x[:, size:].exp()) for x in (one, other)]
    made = [torch.distributions.Independent(normal, 1) for normal in normals]
    torch.testing.assert_close(family.log_prob(one, actions), made[0].log_prob(actions))
    torch.testing.assert_close(family.entropy(one), made[0].entropy())
    torch.testing.assert_close(family.kl(one, other), torch.distributions.kl_divergence(*made))


def test_draws_follow_the_probabilities():
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    drawn = Categorical(4).draw(probabilities.log().expand(20_000, 4), torch.Generator().manual_seed(0))
    expected = probabilities * 20_000
    chi2 = ((torch.bincount(drawn, minlength=4) - expected).square() / expected).sum()
    assert chi2 < 16.27  # of 3 degrees of freedom, p = .001


@pytest.mark.parametrize("lam", [1.0, 0.95])
def test_on_policy_v_trace_is_a2c_is_generalized_advantages(lam):
    nets = networks()
    given = unrolls(fresh=True, near=nets)
    found = {}
    for returns in ("vtrace", "gae"):
        s = A2CSettings(returns=returns, returns_lambda=lam, entropy_coeff=0.02)
        update = IMPALAUpdate(copy.deepcopy(nets), s, 0.9)
        with torch.no_grad():
            outputs = nets.actor.output(given.obs.flatten(0, 1)).unflatten(0, (T + 1, B))
        found[returns] = update.returns(torch.zeros(T, B), outputs[..., -1], given, None)
        found[returns] += (gradients(update, given),)
    values = outputs[..., -1]
    running, expected = torch.zeros(B), torch.zeros(T, B)
    for t in reversed(range(T)):  # GAE (arXiv:1506.02438) without the steps after an end
        future = 0.9 * (~given.terminated[t]).float()
        error = given.rewards[t] + future * values[t + 1] - values[t]
        following = future * (given.live[t + 1].float() if t + 1 < T else 1.0)
        running = (error + following * lam * running) * given.live[t]
        expected[t] = running
    torch.testing.assert_close(found["gae"][1], expected)
    torch.testing.assert_close(found["gae"][0][:-1], expected + values[:-1])
    torch.testing.assert_close(found["vtrace"][0], found["gae"][0])
    if lam == 1.0:
        torch.testing.assert_close(found["vtrace"][1], expected)
        assert_same(found["vtrace"][2], found["gae"][2])


def test_metrics():
    nets = networks()
    result = IMPALAUpdate(copy.deepcopy(nets), IMPALASettings(), 0.9).update(unrolls(fresh=True, near=nets))
    reported = dict(zip(IMPALAUpdate.metrics, result.metrics.tolist(), strict=True))
    assert reported["rho_mean"] == pytest.approx(1.0, abs=1e-5)
    assert reported["effective_sample_size"] == pytest.approx(1.0, abs=1e-4)
    assert reported["kl_to_behavior"] == pytest.approx(0.0, abs=1e-5)
    assert reported["kept_share"] == 1.0 and reported["replayed_share"] == 0.0
    assert 0 < reported["entropy"] <= np.log(ACTIONS)
    assert result.errors.shape == (B,) and result.policy.shape == (T, B, ACTIONS)
    result = IMPALAUpdate(nets, IMPALASettings(relevance_bound=0.05), 0.9).update(unrolls())
    reported = dict(zip(IMPALAUpdate.metrics, result.metrics.tolist(), strict=True))
    assert 0 < reported["kept_share"] < 1 and reported["replayed_share"] == 0.5 and reported["kl_to_behavior"] > 0
    assert reported["rho_mean"] < 1 and 0 < reported["rho_clipped_share"] < 1 and reported["effective_sample_size"] < 1


def test_rmsprop_is_tensorflows():
    parameter = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = RMSprop([parameter], lr=0.1, decay=0.9, eps=0.5)
    square, expected = np.ones(2), np.array([1.0, 2.0])
    for gradient in ([0.5, -1.0], [2.0, 0.0], [1.0, 1.0]):
        parameter.grad = torch.tensor(gradient)
        optimizer.apply()
        square = 0.9 * square + 0.1 * np.square(gradient)
        expected = expected - 0.1 * np.array(gradient) / np.sqrt(square + 0.5)
    np.testing.assert_allclose(parameter.detach().numpy(), expected, rtol=1e-6)


def test_settings_that_contradict_each_other_are_rejected():
    with pytest.raises(ValueError, match="initial_log_std is -1.0 .*; expected free_log_std True"):
        IMPALASettings(initial_log_std=-1.0, free_log_std=False)
    with pytest.raises(ValueError, match="policy_cloning is 0.01 and returns 'gae'; expected 'vtrace'"):
        IMPALASettings(returns="gae", policy_cloning=0.01)
    with pytest.raises(ValueError, match="vtrace_rho is 2.0 and returns 'gae'; expected returns 'vtrace', or no vtrac"):
        IMPALASettings(returns="gae", vtrace_rho=2.0)
    with pytest.raises(ValueError, match="optimizer_decay is 0.9 and optimizer 'Adam'; expected optimizer 'RMSprop'"):
        IMPALASettings(optimizer="Adam", optimizer_decay=0.9)
    with pytest.raises(ValueError, match="relevance_of is 'implied' and actions are continuous; expected 'behavior'"):
        IMPALAUpdate(networks(continuous=True), IMPALASettings(relevance_bound=0.3))


class SpareLayer(Flat):
    """An encoder with a layer that does not affect its output."""

    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(2, 2)


@pytest.mark.parametrize("optimizer", ["RMSprop", "Adam"])
def test_parameters_without_effect_are_kept(optimizer):
    """A3C's runners send the gradients of all parameters, and Adam needs them."""
    nets = networks(encoder=SpareLayer())
    spare, used = nets.encoder.spare.weight.detach().clone(), nets.actor.layers.bodies[0].weights[0].detach().clone()
    update = IMPALAUpdate(nets, IMPALASettings(optimizer=optimizer), 0.9)
    update.update(unrolls())
    assert not nets.encoder.spare.weight.grad.any()
    assert torch.equal(nets.encoder.spare.weight, spare)
    assert not torch.equal(nets.actor.layers.bodies[0].weights[0], used)
