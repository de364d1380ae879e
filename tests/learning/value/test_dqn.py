"""The update of DQN compared with autograd, its options, its targets, and how it acts."""

import pytest
import torch

from interreplay.learning.exploration import Greedy, Noisy
from interreplay.learning.losses import Huber
from interreplay.learning.networks.encoders import Flat
from interreplay.learning.networks.optimizers import RMSprop
from interreplay.learning.update import Batch
from interreplay.learning.value.dqn import DQNUpdate
from interreplay.learning.value.q_networks import QNetworks
from interreplay.learning.value.streams import OneStream, Streams
from interreplay.learning.value.value_heads import Categorical, Mean, Quantiles
from tests.learning.batches import ACTIONS, OBS, N, batch, learn, rng
from tests.learning.value.test_value_heads import defined_losses

HEADS = {"mean": Mean, "categorical": lambda: Categorical(7, -3.0, 3.0), "quantiles": lambda: Quantiles(6)}
KINDS = {"one stream": {}, "dueling": {"dueling": True}, "noisy": {"dueling": True, "sigma0": 0.5}}


pytestmark = pytest.mark.usefixtures("flat_float64")


def networks(head="mean", seed=0, width=OBS, **kind):
    torch.manual_seed(seed)
    made = HEADS[head]()
    layers = Streams if kind else OneStream
    nets = QNetworks(layers(width, ACTIONS, made.numbers, (16, 8), **kind), made, ACTIONS)
    nets.encoder = Flat()
    for parameter in nets.targets.parameters():  # as after some updates
        parameter.data += 0.1 * torch.randn(parameter.shape)
    return nets


def with_encoder(nets):
    nets.encoder = torch.nn.Sequential(torch.nn.Linear(OBS, 7), torch.nn.Tanh())
    nets.target_encoder = torch.nn.Sequential(torch.nn.Linear(OBS, 7), torch.nn.Tanh()).requires_grad_(False)
    return nets


def rows(i=1):
    return batch(i, discrete=True)


def plainly(nets, rows, weights, generator, double):
    """Return the errors of DQN, computed row by row, and the gradients of the whole loss by autograd."""
    layers, head = nets.actor.layers, nets.actor.head
    encode = lambda which, obs: getattr(nets, which)(obs)
    target_encoder = "target_encoder" if hasattr(nets, "target_encoder") else "encoder"
    with torch.no_grad():
        following = nets.targets.outputs(encode(target_encoder, rows.next_obs), nets.targets.draw_noise(generator))
        judged = layers.outputs(encode("encoder", rows.next_obs), layers.draw_noise(generator)) if double else following
        best = [int(head.values(judged[i]).argmax()) for i in range(N)]
        after = torch.stack([following[i, best[i]] for i in range(N)])
        target = head.target(after, rows.rewards, rows.discounts)
    outputs = layers.outputs(encode("encoder", rows.obs), layers.draw_noise(generator))
    chosen = torch.stack([outputs[i, int(rows.actions[i])] for i in range(N)])
    losses = defined_losses(head, chosen, target)
    loss = sum(weights[i] * losses[i] for i in range(N)) / N
    parameters = [*nets.actor.parameters(), *nets.encoder.parameters()]
    return head.compare(chosen.detach(), target).errors, loss, torch.autograd.grad(loss, parameters)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("encoder", [False, True])
def test_the_update_is_that_of_autograd(head, kind, double, encoder):
    nets = networks(head, width=7 if encoder else OBS, **KINDS[kind])
    nets = with_encoder(nets) if encoder else nets
    update = DQNUpdate(nets, double=double, grad_clip=None)
    weights = torch.rand(N, generator=rng(3))
    errors, loss, gradients = plainly(nets, rows(), weights, rng(), double)
    found, metrics = learn(update, rows(), weights, rng())
    torch.testing.assert_close(found, errors)
    torch.testing.assert_close(metrics[0], loss.detach())
    torch.testing.assert_close([parameter.grad for parameter in update.parameters], gradients)


def test_row_weights_multiply_importance_weights():
    one, other = (DQNUpdate(networks("categorical"), grad_clip=0.1) for _ in range(2))
    a, b = (torch.rand(N, generator=rng(i)) for i in (1, 2))
    learn(one, rows(), a, rng(), b)
    learn(other, rows(), a * b, rng())
    torch.testing.assert_close(one.parameters, other.parameters, rtol=0, atol=0)


@pytest.mark.parametrize("head", HEADS)
def test_equal_views_have_no_effect(head):
    plain, viewed = (DQNUpdate(networks(head), double=True) for _ in range(2))
    given = rows()
    extras = {f"views_{k}": getattr(given, k).unsqueeze(1).expand(-1, 3, -1) for k in ("obs", "next_obs")}
    as_float64 = lambda rows, encoder, name: (rows.extras[f"views_{name}"].flatten(0, 1), 3)
    expected, metrics = learn(plain, given, torch.ones(N), rng())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("interreplay.learning.value.dqn.view_tensors", as_float64)
        errors, found = learn(viewed, given.replace(extras=extras), torch.ones(N), rng())
    torch.testing.assert_close(errors, expected)
    torch.testing.assert_close(found, metrics)
    torch.testing.assert_close(plain.parameters, viewed.parameters)


def test_targets_are_copied_every_period_exactly_also_after_a_resume():
    update = DQNUpdate(networks(seed=1), target_update_period=3)
    for i in range(1, 8):
        before = [t.clone() for t in update.targets]
        learn(update, rows(i), torch.ones(N), rng())
        copied = i % 3 == 0
        for target, source, old in zip(update.targets, update.parameters, before, strict=True):
            assert torch.equal(target, source if copied else old)
        state = update.state_dict()
        assert state == {"since_copy": i % 3}
        resumed = DQNUpdate(update.networks, target_update_period=3)
        resumed.load_state_dict(state)
        resumed.optimizers["q"].load_state_dict(update.optimizers["q"].state_dict())
        update = resumed


def test_targets_move_a_share_of_the_way():
    update = DQNUpdate(networks(), tau=0.25, target_update_period=1)
    before = [t.clone() for t in update.targets]
    learn(update, rows(), torch.ones(N), rng())
    for target, old, source in zip(update.targets, before, update.parameters, strict=True):
        torch.testing.assert_close(target, 0.75 * old + 0.25 * source)


@pytest.mark.parametrize("tau", [0.25, 1.0])
def test_moved_targets_have_no_graph(tau):
    """A graph would grow by one node per parameter and move, and the networks could not be copied."""
    update = DQNUpdate(networks(dueling=True), tau=tau, target_update_period=1)
    learn(update, rows(), torch.ones(N), rng())
    assert all(target.grad_fn is None for target in update.targets)


def test_each_network_and_update_has_independent_noise():
    nets, drawn = networks(dueling=True, sigma0=0.5), []
    names = nets.state_dict().keys()
    update = DQNUpdate(nets, double=True)
    for layers in (nets.actor.layers, nets.targets):
        draw = layers.draw_noise
        layers.draw_noise = lambda rng, draw=draw: drawn.append(draw(rng)) or drawn[-1]
    generator = rng()
    for i in range(2):
        learn(update, rows(i), torch.ones(N), generator)
    numbers = torch.stack([noise[0][0] for noise in drawn])
    assert len(numbers) == 6 and len(numbers.unique(dim=0)) == 6  # s and s' of the network, s' of the targets, twice
    assert nets.state_dict().keys() == names, "noise is not part of the state"


def test_the_policy_is_noisy_only_if_it_explores():
    policy, seen = networks(dueling=True, sigma0=2.0).actor, torch.randn(256, OBS, generator=rng(4))
    generator = rng()
    with torch.no_grad():
        one, other = (policy.noisy_output(seen, generator) for _ in range(2))
        assert not torch.allclose(one, other) and torch.equal(one, policy.noisy_output(seen, rng()))
        assert torch.equal(Noisy().act(policy, seen, rng()), one.argmax(dim=-1))
        assert torch.equal(Greedy().act(policy, seen, rng()), policy.output(seen).argmax(dim=-1))
        assert torch.equal(policy.output(seen), policy.output(seen))
        assert any((Noisy().act(policy, seen, rng(i)) != policy.act(seen)).any() for i in range(20))


def test_recorded_outputs_are_distributions():
    policy = networks("quantiles").actor
    with torch.no_grad():
        recorded = policy.record(policy.output(torch.randn(9, OBS)))["behavior"]
    assert recorded.shape == policy.record_random(9)["behavior"].shape == (9, ACTIONS)
    torch.testing.assert_close(recorded.sum(dim=-1), torch.ones(9))


@pytest.mark.parametrize("steps", [1, 5])
def test_rmsprop_is_centered_with_epsilon_under_the_root(steps):
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = RMSprop([parameter], 0.01, 0.95, 1e-3, centered=True)
    x = [1.0, -2.0]
    average = [0.0, 0.0]
    square = [0.0, 0.0]
    for step in range(steps):
        gradient = [0.3 * (step + 1), -1.0]
        parameter.grad = torch.tensor(gradient)
        optimizer.apply()
        for i in range(2):
            average[i] += 0.05 * (gradient[i] - average[i])
            square[i] += 0.05 * (gradient[i] ** 2 - square[i])
            x[i] -= 0.01 * gradient[i] / (square[i] - average[i] ** 2 + 1e-3) ** 0.5
    torch.testing.assert_close(parameter.detach(), torch.tensor(x))


@pytest.mark.parametrize("head", HEADS)
def test_scores_of_rows_are_those_of_an_update(head):
    update = DQNUpdate(networks(head, dueling=True), double=True)
    scored = update.score(rows(), ["largest_error", "target"], rng())
    assert scored.keys() == {"largest_error"}, "targets are distributions here, which no batch brings"
    update.scores_wanted = frozenset({"mean_error"})
    result = update.update(Batch(rows(), torch.ones(N)), rng())
    torch.testing.assert_close(scored["largest_error"], result.errors.abs())
    assert torch.equal(result.scores["mean_error"], result.errors.abs())
    assert ("critic_loss" in update.offers) == (head == "mean")


def test_rows_may_bring_the_loss_of_their_errors():
    one, other = DQNUpdate(networks(), grad_clip=None), DQNUpdate(networks(), grad_clip=None)
    other.head.huber_delta = 0.2
    expected = other.update(Batch(rows(), torch.ones(N)), rng())
    found = one.update(Batch(rows(), torch.ones(N), critic_loss=Huber(0.2)), rng())
    torch.testing.assert_close(found.metrics, expected.metrics)
    torch.testing.assert_close(one.parameters, other.parameters)
