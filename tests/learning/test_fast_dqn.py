"""DQN's update in numpy against the one in torch: parameters, moments, errors and metrics over many updates."""

from __future__ import annotations

import copy

import pytest
import torch

from interreplay.learning.dqn import DQNUpdate
from interreplay.learning.encoders import Flat
from interreplay.learning.fast.values.numpy_passes import SMALL
from interreplay.learning.fast.values.small_networks import FastDQNUpdate, fits
from interreplay.learning.fast.values.streams import FastStreamsUpdate
from interreplay.learning.losses import Huber
from interreplay.learning.q_networks import QNetworks
from interreplay.learning.streams import make_layers
from interreplay.learning.update import Batch
from interreplay.learning.value_heads import Categorical, Mean, Quantiles
from tests.learning.batches import ACTIONS, OBS, N, batch

pytestmark = pytest.mark.usefixtures("flat_float64")


def networks(huber_delta=1.0, hiddens=(16, 8), head=None, activation="relu", **kind):
    torch.manual_seed(0)
    made = Mean(huber_delta) if head is None else head
    nets = QNetworks(make_layers(OBS, ACTIONS, made.numbers, hiddens, activation=activation, **kind), made, ACTIONS)
    nets.encoder = Flat()
    return nets


def both(**options):
    """The two updates of equal networks."""
    nets = networks(options.pop("huber_delta", 1.0), activation=options.pop("activation", "relu"))
    settings = {"lr": 0.05, "target_update_period": 7} | options
    return DQNUpdate(copy.deepcopy(nets), **settings), FastDQNUpdate(copy.deepcopy(nets), **settings)


def drawn(i, loss=None):
    weights = torch.rand(N, generator=torch.Generator().manual_seed(i)) + 0.5
    return Batch(batch(i, discrete=True), weights, None if i % 2 else weights.flip(0), critic_loss=loss)


def same(plain, fast):
    for a, b in zip(plain.networks.parameters(), fast.networks.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)
    moments = [update.optimizers["q"].state_dict()["state"] for update in (plain, fast)]
    for i, state in moments[0].items():
        for name, value in state.items():
            torch.testing.assert_close(value, moments[1][i][name], rtol=0, atol=1e-9)


def rng():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("huber_delta", [None, 0.3])
@pytest.mark.parametrize("grad_clip", [None, 0.2])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_it_is_the_update_in_torch(double, huber_delta, grad_clip, activation):
    plain, fast = both(double=double, huber_delta=huber_delta, grad_clip=grad_clip, activation=activation)
    for i in range(50):
        wanted, found = plain.update(drawn(i), rng()), fast.update(drawn(i), rng())
        torch.testing.assert_close(found.errors, wanted.errors, rtol=0, atol=1e-9)
        torch.testing.assert_close(found.metrics, wanted.metrics, rtol=0, atol=1e-9)
    same(plain, fast)


@pytest.mark.parametrize("kind", [{"dueling": True}, {"sigma0": 0.5}, {"dueling": True, "sigma0": 0.5}])
@pytest.mark.parametrize("hiddens", [(8,), (16, 8)])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("encoded", [False, True])
def test_streams_by_hand_are_those_of_autograd(kind, hiddens, activation, encoded):
    nets = networks(head=Categorical(5, -2, 2), hiddens=hiddens, activation=activation, **kind)
    if encoded:
        nets.encoder, nets.target_encoder = torch.nn.Linear(OBS, OBS), torch.nn.Linear(OBS, OBS)
    options = {"lr": 0.01, "target_update_period": 7, "double": True, "grad_clip": 0.5}
    plain, fast = (update(copy.deepcopy(nets), **options) for update in (DQNUpdate, FastStreamsUpdate))
    for i in range(50):
        seeds = [torch.Generator().manual_seed(i) for _ in range(2)]
        wanted, found = plain.update(drawn(i), seeds[0]), fast.update(drawn(i), seeds[1])
        torch.testing.assert_close(found.errors, wanted.errors, rtol=0, atol=1e-9)
        torch.testing.assert_close(found.metrics, wanted.metrics, rtol=0, atol=1e-9)
    same(plain, fast)


def test_batches_with_a_loss_of_their_own_come_between():
    plain, fast = both()
    for i in range(12):
        loss = Huber(0.1) if i % 3 == 1 else None
        plain.update(drawn(i, loss), rng())
        fast.update(drawn(i, loss), rng())
    same(plain, fast)


def test_scores_are_those_of_torch():
    plain, fast = both()
    for update in (plain, fast):
        update.scores_wanted = update.offers & {"mean_error", "largest_error"}
    wanted, found = plain.update(drawn(1), rng()).scores, fast.update(drawn(1), rng()).scores
    assert set(found) == set(wanted) != set()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-9)


def test_it_goes_on_from_its_state_bit_for_bit():
    _, straight = both()
    for i in range(5):
        straight.update(drawn(i), rng())
    _, resumed = both()
    resumed.networks.load_state_dict(copy.deepcopy(straight.networks.state_dict()))
    resumed.load_state_dict(straight.state_dict())
    resumed.optimizers["q"].load_state_dict(copy.deepcopy(straight.optimizers["q"].state_dict()))
    for i in range(5, 15):
        straight.update(drawn(i), rng())
        resumed.update(drawn(i), rng())
    for a, b in zip(straight.networks.parameters(), resumed.networks.parameters(), strict=True):
        assert torch.equal(a, b)


def test_parameters_that_were_given_other_memory_are_found():
    plain, fast = both()
    for i in range(8):
        if i == 4:
            for parameter in fast.networks.parameters():
                parameter.data = parameter.data.clone()
        plain.update(drawn(i), rng())
        fast.update(drawn(i), rng())
    same(plain, fast)


def test_weights_are_one_per_row():
    _, fast = both()
    with pytest.raises(ValueError, match="weights have shape"):
        fast.update(Batch(batch(1, discrete=True), torch.ones(N, 1), None), rng())


def test_what_it_is_not_for():
    assert fits(networks())
    assert not fits(networks(head=Quantiles(6)))
    assert not fits(networks(dueling=True)) and not fits(networks(sigma0=0.5)) and not fits(networks(activation="elu"))
    assert not fits(networks(hiddens=(SMALL // ACTIONS, 8)))
    learning = networks()
    learning.encoder = torch.nn.Linear(OBS, OBS)
    assert not fits(learning)
