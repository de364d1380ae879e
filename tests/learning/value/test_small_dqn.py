"""DQN's update of small networks, which run in numpy, compared with networks that run in PyTorch."""

import pytest
import torch

from interreplay.learning.losses import Huber
from interreplay.learning.networks.encoders import Flat
from interreplay.learning.networks.small_layers import SMALL
from interreplay.learning.update import Batch
from interreplay.learning.value.dqn import DQNUpdate
from interreplay.learning.value.q_networks import QNetworks
from interreplay.learning.value.streams import OneStream, Streams
from interreplay.learning.value.value_heads import Mean
from tests.learning.batches import ACTIONS, OBS, N, batch, rng
from tests.learning.plain_torch import without_numpy

pytestmark = pytest.mark.usefixtures("flat_float64")


def networks(huber_delta=1.0, hiddens=(16, 8), head=None, activation="relu", **kind):
    torch.manual_seed(0)
    made = Mean(huber_delta) if head is None else head
    layers = Streams if kind else OneStream
    nets = QNetworks(layers(OBS, ACTIONS, made.numbers, hiddens, activation=activation, **kind), made, ACTIONS)
    nets.encoder = Flat()
    return nets


def made(**options):
    """Return an update whose networks are equal for each call."""
    nets = networks(options.pop("huber_delta", 1.0), activation=options.pop("activation", "relu"))
    return DQNUpdate(nets, **{"lr": 0.05, "target_update_period": 7} | options)


def drawn(i, loss=None):
    weights = torch.rand(N, generator=torch.Generator().manual_seed(i)) + 0.5
    return Batch(batch(i, discrete=True), weights, None if i % 2 else weights.flip(0), critic_loss=loss)


def same(plain, fast):
    torch.testing.assert_close(plain.networks.state_dict(), fast.networks.state_dict(), rtol=0, atol=1e-9)
    moments = [update.optimizers["q"].state_dict()["state"] for update in (plain, fast)]
    assert moments[0]
    torch.testing.assert_close(moments[0], moments[1], rtol=0, atol=1e-9)


def learned(options, updates=15, loss=None):
    """Return the results of some updates, every third from rows with a loss, and the update object."""
    update, results = made(**options), []
    update.scores_wanted = update.offers & {"mean_error", "largest_error"}
    for i in range(updates):
        results.append(update.update(drawn(i, loss if i % 3 == 1 else None), rng()))
    return results, update


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("huber_delta", [None, 0.3])
@pytest.mark.parametrize("grad_clip", [None, 0.2])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_updates_equal_those_of_networks_in_pytorch(double, huber_delta, grad_clip, activation):
    options = {"double": double, "huber_delta": huber_delta, "grad_clip": grad_clip, "activation": activation}
    found, update = learned(options, loss=Huber(0.1))
    with without_numpy():
        required, plain = learned(options, loss=Huber(0.1))
    for mine, theirs in zip(found, required, strict=True):
        torch.testing.assert_close(mine.errors, theirs.errors, rtol=0, atol=1e-9)
        torch.testing.assert_close(mine.metrics, theirs.metrics, rtol=0, atol=1e-9)
        assert set(mine.scores) == set(theirs.scores) == {"mean_error", "largest_error"}
        torch.testing.assert_close(mine.scores, theirs.scores, rtol=0, atol=1e-9)
    same(plain, update)


def test_parameters_that_were_given_other_memory_are_found():
    one, other = made(), made()
    for i in range(8):
        if i == 4:
            for parameter in other.networks.parameters():
                parameter.data = parameter.data.clone()
        one.update(drawn(i), rng())
        other.update(drawn(i), rng())
    same(one, other)


def test_weights_are_one_per_row():
    update = made()
    with pytest.raises(ValueError, match="weights have shape"):
        update.update(Batch(batch(1, discrete=True), torch.ones(N, 1), None), rng())


def test_which_networks_run_in_numpy():
    rows = torch.randn(3, OBS)
    for options, in_numpy in (({}, True), ({"hiddens": (SMALL // ACTIONS, 8)}, False)):
        body = networks(**options).actor.layers.body
        name = body(rows).grad_fn.name()
        assert name == ("SmallLayersBackward" if in_numpy else "SqueezeBackward1")
    body = networks().actor.layers.body
    body.matrix_dtype = torch.bfloat16
    assert body(rows).grad_fn.name() == "SqueezeBackward1"
