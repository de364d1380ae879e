"""Buffers with batches on another device: the batches equal those on the CPU."""

import pytest
import torch
from builders import Episodes

from interreplay.buffer import Sample
from interreplay.buffer.device_nmer import DeviceNMER
from interreplay.diagnostics.contract import learn
from tests.devices import stand_in
from tests.test_contract import VARIANTS, rows_for

pytestmark = pytest.mark.filterwarnings("ignore:Elite has no policy")

FIELDS = ("slots", "weights", "neighbor_slots", "mix", "variances", "row_weights")


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_batches_are_the_processors(name, device):
    recipe = VARIANTS[name]
    errors = torch.linspace(-2, 2, 32)
    here, there = (recipe(capacity=100, seed=0, device=str(where)) for where in ("cpu", device))
    rows = Episodes(envs=2, **rows_for(name)).transitions(150)
    here.add(rows)
    there.add(rows.to(device))
    for step in range(3):
        mine, theirs = here.sample(32), there.sample(32)
        assert theirs.transitions.rewards.device.type == theirs.slots.device.type == device.type
        pairs = {field: (getattr(mine, field), getattr(theirs, field)) for field in FIELDS}
        columns = theirs.transitions.columns()
        pairs |= {column: (values, columns[column]) for column, values in mine.transitions.columns().items()}
        for what, (one, other) in pairs.items():
            assert (one is None) == (other is None), what
            assert one is None or torch.equal(one, other.cpu()), what
        learn(here, mine, errors)
        there.update(theirs, errors.to(device), {score: errors.to(device) ** 2 for score in there.scores_wanted})
        for buffer in (here, there):
            buffer.anneal((step + 1) / 10)


def test_methods_without_priorities_do_not_wait_for_the_device(device):
    for name in ("Uniform", "NMER", "LCER", "S4RL"):
        buffer = VARIANTS[name](capacity=100, seed=0, device=str(device))
        buffer.add(Episodes(seed=1).transitions(100))
        stand_in.waits.clear()
        sample: Sample = buffer.sample(32)
        buffer.update(sample, sample.weights)
        assert not stand_in.waits, (name, stand_in.waits)


def test_the_stand_in_rejects_mixed_devices_and_counts_waits(device):
    if device.type != stand_in.NAME:
        pytest.skip("PyTorch's backward passes do not know a second device in a process with a GPU")
    one = torch.ones(3, device=stand_in.NAME)
    with pytest.raises(RuntimeError, match="same device"):
        one + torch.ones(3)
    with pytest.raises(TypeError, match="numpy"):
        one.numpy()
    stand_in.waits.clear()
    assert (one + torch.tensor(2.0)).device == one.device and not stand_in.waits
    assert float(one.sum()) == 3.0 and one.cpu().tolist() == [1.0] * 3 and len(one.nonzero()) == 3
    assert dict(stand_in.waits) == {"_local_scalar_dense": 1, "copy to the processor": 1, "nonzero": 1}


def test_neighbors_on_the_device_are_the_processors(device):
    """`DeviceNMER` has the same lists on both devices, and a draw as a CUDA graph equals its operations."""
    if device.type == stand_in.NAME:
        pytest.skip("the stand-in has no generator of its own")
    here, there = (DeviceNMER(capacity=2_000, seed=0, device=str(where)) for where in ("cpu", device))
    rows = Episodes(envs=2, obs_shape=(17,), action_shape=(6,)).transitions(3_000)
    for start in range(0, 3_000, 100):
        for buffer in (here, there):
            buffer.add(rows[start : start + 100])
            buffer.sample(8)
    mine, theirs = here.state_dict()["device"], there.state_dict()["device"]
    assert mine["waiting"] == theirs["waiting"]
    torch.testing.assert_close(theirs["lists"]["squared"], mine["lists"]["squared"], rtol=1e-4, atol=1e-5)
    same = (mine["lists"]["slots"] == theirs["lists"]["slots"]).float().mean()
    assert same > 0.999  # rows at equal distances may change places
    for size in (64, 256):
        for _ in range(5):  # the first draws are not captured yet
            there.sample(size)
        state = there.state_dict()
        captured = there.sample(size)
        again = DeviceNMER(capacity=2_000, seed=0, device=str(device))
        again.load_state_dict(state)
        usual = again.sample(size)
        torch.testing.assert_close(captured.transitions.columns(), usual.transitions.columns(), rtol=0, atol=0)
        for name in ("slots", "neighbor_slots", "mix", "probabilities", "weights"):
            assert torch.equal(getattr(captured, name), getattr(usual, name)), name
