"""Our Adam takes the steps of PyTorch's, fused and in parts, and their states are interchangeable."""

import contextlib
import copy

import pytest
import torch

from interreplay.learning.networks.convolutions import ConvolutionBody
from interreplay.learning.networks.optimizers import FastAdam, FastAdamW
from tests.learning.batches import learn
from tests.learning.update_cases import ALGORITHMS, assert_equal, given, keep_float64, make, settings_of  # noqa: F401

ALL = {"n_critics": 3, "target_subset": 2, "critic_layer_norm": True, "critic_dropout": 0.1, "policy_delay": 2}
ALL |= {"actor_target": "mean", "weight_decay": 0.01, "reset_interval": 7}


@pytest.mark.parametrize("images", [4, 20], ids=["convolution", "patches"])
@pytest.mark.parametrize("kind", ["minatar", "two layers", "listed"])
def test_convolutions_take_the_steps_of_pytorch_s_adam(kind, images):
    """Gradients of convolutions and their weights can have different orders in memory."""
    torch.manual_seed(0)
    pixels = torch.randint(0, 256, (images, 10, 10, 4), dtype=torch.uint8)
    sizes = {"minatar": ((16, 3, 1),), "two layers": ((8, 4, 2), (6, 3, 1))}
    network = torch.nn.Sequential(torch.nn.Conv2d(4, 6, 3), torch.nn.ReLU())
    if kind in sizes:
        network = ConvolutionBody((10, 10, 4), sizes[kind])
    else:
        pixels = pixels.movedim(-1, 1).float()
    copied = copy.deepcopy(network)
    parameters = list(network.parameters())
    fast = FastAdam(parameters, 0.01)
    plain = torch.optim.Adam(copied.parameters(), 0.01, foreach=False)
    for _ in range(3):
        loss = network(pixels).square().sum()
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient
        fast.apply()
        plain.zero_grad()
        copied(pixels).square().sum().backward()
        plain.step()
    torch.testing.assert_close(parameters, list(copied.parameters()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "decay"), [(FastAdam, 0.0), (FastAdam, 0.1), (FastAdamW, 0.1)])
def test_adam_of_parts_equals_the_fused_kernel(kind, decay, monkeypatch):
    torch.manual_seed(0)
    first = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(5))]
    second = [torch.nn.Parameter(parameter.detach().clone()) for parameter in first]
    fused, parts = kind(first, 0.01, weight_decay=decay), kind(second, 0.01, weight_decay=decay)
    parts.compile(lambda function, device: function)
    monkeypatch.setattr(parts, "learning_rate", lambda: torch.tensor(0.01))  # as on a GPU
    for _ in range(20):
        for one, other in zip(first, second, strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        fused.apply()
        parts.apply()
    torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-6)


class PlainAdam(torch.optim.Adam):
    def apply(self):
        self.step()


class PlainAdamW(torch.optim.AdamW):
    def apply(self):
        self.step()


@contextlib.contextmanager
def plain_optimizers():
    """Make updates of actors and critics use PyTorch's optimizers."""
    module = "interreplay.learning.actor_critic.actor_critic"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{module}.FastAdam", PlainAdam)
        patch.setattr(f"{module}.FastAdamW", PlainAdamW)
        yield


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_checkpoint_with_adam_of_pytorch_can_be_resumed(algorithm):
    """States of PyTorch's optimizers and of ours are interchangeable."""
    own = settings_of(algorithm, ALL)
    ends = []
    for plain_first in (True, False):
        networks, states = make(algorithm, settings=own), None
        for plain in (plain_first, not plain_first):
            with plain_optimizers() if plain else contextlib.nullcontext():
                update = ALGORITHMS[algorithm][1](networks, **own)
                if states is not None:
                    update.load_state_dict(states.pop("update"))
                    for name, state in states.items():
                        update.optimizers[name].load_state_dict(copy.deepcopy(state))
                for i in range(5):
                    rows, weights, row_weights = given(i, algorithm, 0, False)
                    learn(update, rows, weights, torch.Generator().manual_seed(i), row_weights)
            states = {name: optimizer.state_dict() for name, optimizer in update.optimizers.items()}
            states["update"] = update.state_dict()
        ends.append(update)
    assert_equal(*ends)
