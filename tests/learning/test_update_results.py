"""The results of updates have no gradients: sums of metrics would keep the graphs of all updates."""

from dataclasses import fields

import pytest
import torch

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
