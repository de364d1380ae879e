"""Updates as CUDA graphs are bit-equal to usual updates. These tests require a GPU: `--device cuda`."""

import copy
import inspect

import pytest
import torch

from interreplay.learning.actor_critic.many import ManyUpdates
from interreplay.learning.captured import CapturedUpdate
from interreplay.learning.networks.layers import BatchedMLP
from interreplay.learning.update import Batch
from tests.devices.learners import LEARNERS, VALUES, rows_and_weights, values
from tests.learning.actor_critic import test_many as of_many
from tests.learning.conftest import flat_float64, float64  # noqa: F401
from tests.learning.update_cases import ALGORITHMS, keep_float64, make  # noqa: F401

UPDATES = 9


@pytest.fixture(autouse=True)
def _needs_graphs(device):
    if device.type != "cuda":
        pytest.skip("CUDA graphs need a GPU: --device cuda")


def assert_same(networks, build, batches, device, between=lambda update, i: None, equal=torch.equal):
    """Learn from batches with and without graphs, alternately from main memory and from the GPU."""
    updates = []
    results = []
    for captures in (False, True):
        update = build(copy.deepcopy(networks).to(device))
        learner = CapturedUpdate(update, device) if captures else update
        rng = torch.Generator(device).manual_seed(7)
        found = []
        for i, batch in enumerate(batches):
            there = batch if captures and i % 2 else batch.map(lambda column: column.to(device))
            result = learner.update(there, rng)
            found += [result.errors, result.metrics]
            between(update, i)
        results.append([column.cpu() for column in found] + [torch.randn(4, generator=rng, device=device).cpu()])
        updates.append(update)
    usual, captured = results
    for i, (one, other) in enumerate(zip(usual, captured, strict=True)):
        assert equal(one, other), i
    for name, value in updates[0].networks.state_dict().items():
        assert equal(value, updates[1].networks.state_dict()[name]), name


@pytest.mark.parametrize("name", LEARNERS)
def test_actors_critics_and_unrolls(name, device):
    assert_same(*LEARNERS[name](UPDATES), device)


@pytest.mark.parametrize(("kind", "head"), VALUES)
def test_values(kind, head, device, flat_float64):  # noqa: F811
    # The GPU adds up the probabilities of a categorical target in any order.
    equal = torch.allclose if head == "categorical" else torch.equal
    assert_same(*values(kind, head, UPDATES), device, equal=equal)


def test_learning_rates_and_loaded_states_change_between_updates(device):
    _, kind, own = ALGORITHMS["SAC"]

    def change(update, i):
        for optimizer in update.optimizers.values():
            optimizer.param_groups[0]["lr"] = 1e-3 / (i + 1)
        if i == 4:
            for optimizer in update.optimizers.values():
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))

    networks = make("SAC", None, "relu", own)
    assert_same(networks, lambda nets: kind(nets, **own), rows_and_weights(UPDATES), device, change)


@pytest.mark.parametrize("precision", ["float32", "TF32", "bfloat16"])
def test_types_of_products(precision, device, monkeypatch):
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", precision == "TF32")
    networks = make("SAC").float()
    for layers in networks.modules():
        if precision == "bfloat16" and isinstance(layers, BatchedMLP):
            layers.matrix_dtype = torch.bfloat16
    batches = [batch.map(lambda column: column.float()) for batch in rows_and_weights(UPDATES)]
    assert_same(networks, ALGORITHMS["SAC"][1], batches, device)


def test_many_runs(device):
    results = []
    for captures in (False, True):
        updates = of_many.runs_of("SAC", {"policy_delay": 2}, device)
        many = ManyUpdates(updates)
        learner = CapturedUpdate(many, device) if captures else many
        rngs = [torch.Generator(device).manual_seed(run) for run in range(of_many.RUNS)]
        found = []
        for i in range(UPDATES):
            batch = Batch.stack(of_many.batches_of(i, "SAC", 0, True))
            result = learner.update(batch.map(lambda column: column.to(device)), rngs)
            found += [result.errors, result.metrics]
        found += [value for update in updates for value in update.networks.state_dict().values()]
        results.append(found)
    assert all(map(torch.equal, *results))


def test_compiled_updates(device):
    """Compiled programs with their own Adam equal the kernels up to rounding."""
    if "isolate_recompiles" not in inspect.signature(torch.compile).parameters:
        pytest.skip("torch_compile needs PyTorch 2.13")
    kind = ALGORITHMS["SAC"][1]
    results = []
    for compiled in (False, True):
        networks = make("SAC").float().to(device)
        update = kind(networks, weight_decay=0.01, torch_compile=compiled)
        learner = CapturedUpdate(update, device)
        rng = torch.Generator(device).manual_seed(0)
        for batch in rows_and_weights(UPDATES):
            learner.update(batch.map(lambda column: column.float()), rng)
        results.append(networks.state_dict())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
