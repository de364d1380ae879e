"""Updates with the fast primitives against updates with primitives in plain PyTorch, over many updates in float64."""

import copy

import pytest
import torch

from tests.learning.batches import N, learn
from tests.learning.plain_torch import plain_primitives
from tests.learning.update_cases import (  # noqa: F401
    ALGORITHMS,
    ALL,
    CASES,
    OF_TD3,
    assert_equal,
    given,
    keep_float64,
    make,
    pairs,
    settings_of,
)

UPDATES = 6


def learned(algorithm, settings, views, encoder, weighted):
    """Return the results of some updates, and the update object."""
    settings = dict(settings)
    activation = settings.pop("activation", "relu")
    networks = make(algorithm, encoder, activation, settings)
    update, rng = ALGORITHMS[algorithm][1](networks, **settings), torch.Generator().manual_seed(7)
    results = []
    for i in range(UPDATES):
        rows, weights, row_weights = given(i, algorithm, views, weighted)
        results.append(learn(update, rows, weights, rng, row_weights))
    return results, update


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "case"), [*pairs(CASES), *(("TD3", case) for case in OF_TD3)])
def test_updates_equal_those_in_plain_pytorch(algorithm, case):
    settings, views, encoder, weighted = (CASES | OF_TD3)[case]
    settings = settings_of(algorithm, settings)
    results, update = learned(algorithm, settings, views, encoder, weighted)
    with plain_primitives():
        expected, plain = learned(algorithm, settings, views, encoder, weighted)
    for mine, theirs in zip(results, expected, strict=True):
        for ours, defined in zip(mine, theirs, strict=True):
            torch.testing.assert_close(ours, defined, rtol=1e-9, atol=1e-11)
            assert not ours.requires_grad
    assert_equal(update, plain)
    before = make(algorithm, encoder, settings=settings).state_dict()
    moved = {name for name, value in update.networks.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == set(before), "every network moved"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_checkpoint_with_adam_of_pytorch_can_be_resumed(algorithm):
    """States of PyTorch's optimizers and of ours are interchangeable."""
    own = settings_of(algorithm, ALL)
    ends = []
    for plain_first in (True, False):
        networks, states = make(algorithm, settings=own), None
        for plain in (plain_first, not plain_first):
            with plain_primitives() if plain else torch.enable_grad():
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


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_row_weights_of_shape_n_1_are_rejected(algorithm):
    rows, weights, _ = given(0, algorithm, 0, False)
    update = ALGORITHMS[algorithm][1](make(algorithm), **ALGORITHMS[algorithm][2])
    with pytest.raises(ValueError, match=r"weights have shape \(32, 1\); expected \(32,\)"):
        learn(update, rows, weights, torch.Generator(), torch.ones(N, 1))
