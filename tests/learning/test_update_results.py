"""The results of updates have no gradients, which sums of metrics would keep, and those of users are checked."""

from dataclasses import fields

import pytest
import torch

from interreplay.errors import PartError
from interreplay.learning.update import Update, UpdateResult
from tests.devices.learners import LEARNERS, VALUES, values
from tests.learning.conftest import flat_float64, float64  # noqa: F401
from tests.learning.update_cases import keep_float64  # noqa: F401


def assert_detached(networks, build, batches):
    result = build(networks).update(batches[0], torch.Generator().manual_seed(0))
    tensors = [getattr(result, field.name) for field in fields(result)]
    tensors += getattr(result, "scores", {}).values()
    assert not any(tensor.requires_grad for tensor in tensors if isinstance(tensor, torch.Tensor))


@pytest.mark.parametrize("name", LEARNERS)
def test_actors_critics_and_unrolls(name):
    assert_detached(*LEARNERS[name](1))


@pytest.mark.parametrize(("kind", "head"), VALUES)
def test_values(kind, head, flat_float64):  # noqa: F811
    assert_detached(*values(kind, head, 1))


class Returning(Update):
    """A user's update that returns what it was given."""

    metrics = ("loss", "size")
    optimizers = {}  # noqa: RUF012

    def __init__(self, result):
        self.result = result

    def learn(self, batch, rng):
        return self.result


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "a NoneType; expected an object of UpdateResult"),
        (UpdateResult(torch.ones(4), torch.tensor(1.0)), r"metrics of shape \(\); expected .* \(2,\): loss, size"),
        (UpdateResult(torch.ones(4), {"loss": 1.0}), r"metrics of type dict; expected .* \(2,\): loss, size"),
    ],
)
def test_invalid_results_of_a_users_update_are_rejected(result, message):
    with pytest.raises(PartError, match=f"learn of Returning returned {message}"):
        Returning(result).update(None)


def test_valid_results_of_a_users_update_are_returned():
    result = UpdateResult(torch.ones(4), torch.ones(2))
    assert Returning(result).update(None) is result
