"""Buffers on another device: the rows that come back are those of the processor's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import Episodes

from interreplay import ReplayBuffer
from interreplay.diagnostics.contract import learn
from tests.devices import stand_in
from tests.test_contract import VARIANTS, rows_for

pytestmark = pytest.mark.filterwarnings("ignore:Elite has no policy")

FIELDS = ("slots", "weights", "neighbor_slots", "mix", "variances", "row_weights")
SEARCHES = ("NMER", "KNNOutcome", "HER with NMER")
"""Those that draw of their neighbors by other random numbers where no lists of neighbors are kept."""
NEVER_WAIT = (
    "Uniform",
    "Online",
    "CER",
    "ERE",
    "TruncatedGeometric",
    "S4RL",
    "LaBER",
    "NaiveMixup",
    "NMER",
    "KNNOutcome",
)


def filled(recipe: Any, device: torch.device | str) -> ReplayBuffer:
    buffer, episodes = recipe(capacity=100, seed=0, device=str(device)), Episodes(envs=2, **rows_for(recipe))
    for size in (40, 1, 60, 1, 30, 1):
        buffer.add(episodes.transitions(size))
    return buffer


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in SEARCHES])
def test_samples_are_the_processors(name, device):
    here, there = (filled(VARIANTS[name], where) for where in ("cpu", device))
    errors = torch.linspace(-2, 2, 32)
    for step in range(3):
        mine, theirs = here.sample(32), there.sample(32)
        assert theirs.transitions.rewards.device.type == theirs.slots.device.type == device.type
        pairs = {field: (getattr(mine, field), getattr(theirs, field)) for field in FIELDS}
        columns = theirs.transitions.columns()
        pairs |= {column: (values, columns[column]) for column, values in mine.transitions.columns().items()}
        for what, (one, other) in pairs.items():
            assert (one is None) == (other is None), what
            if one is not None:
                torch.testing.assert_close(one, other.cpu(), msg=lambda m, what=what: f"{what}: {m}")
        learn(here, mine, errors)
        there.update(theirs, errors.to(device), {wanted: errors.to(device) ** 2 for wanted in there.scores_wanted})
        for buffer in (here, there):
            buffer.anneal((step + 1) / 10)


@pytest.mark.parametrize("name", SEARCHES)
def test_neighbors_are_the_processors(name, device):
    here, there = (filled(VARIANTS[name], where) for where in ("cpu", device))
    slots = torch.arange(100)
    found = [
        getattr(buffer.neighborhood, "partners", buffer.neighborhood).neighbors(buffer.storage, slots.to(where))
        for buffer, where in ((here, "cpu"), (there, device))
    ]
    assert torch.equal(found[0], found[1].cpu())
    sample = there.sample(64)
    if name == "NMER":
        near = found[0][sample.slots.cpu()]
        chosen = sample.neighbor_slots.cpu()[:, None]
        assert ((near == chosen).any(1) | (chosen[:, 0] < 0)).all()  # no ends of episodes are blended


@pytest.mark.parametrize("name", NEVER_WAIT)
def test_rows_are_added_and_drawn_without_waiting(name, device):
    buffer, rows = filled(VARIANTS[name], device), Episodes(seed=1).transitions(8)
    buffer.sample(32)
    stand_in.waits.clear()
    buffer.add(rows[:1])
    buffer.add(rows[1:])
    buffer.sample(32)
    assert not stand_in.waits, stand_in.waits


def test_the_stand_in_refuses_what_a_card_refuses_and_counts_what_waits_for_it():
    stand_in.begin()  # where a real device is tested, it is not there yet
    one = torch.ones(3, device=stand_in.NAME)
    with pytest.raises(RuntimeError, match="same device"):
        one + torch.ones(3)
    with pytest.raises(TypeError, match="numpy"):
        one.numpy()
    stand_in.waits.clear()
    assert (one + torch.tensor(2.0)).device == one.device and not stand_in.waits
    assert float(one.sum()) == 3.0 and one.cpu().tolist() == [1.0] * 3 and len(one.nonzero()) == 3
    assert dict(stand_in.waits) == {"_local_scalar_dense": 1, "copy to the processor": 1, "nonzero": 1}
