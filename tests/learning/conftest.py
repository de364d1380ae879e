"""Fixtures of the tests of updates: float64, which separates rounding from mistakes."""

import pytest
import torch

from interreplay.learning.networks import batched_layers
from interreplay.learning.networks.encoders import Flat


@pytest.fixture
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def flat_float64(float64, monkeypatch):
    """Keep observations in float64, which networks otherwise convert to float32."""
    monkeypatch.setattr(Flat, "forward", lambda self, obs: obs)


@pytest.fixture
def float64_rows(monkeypatch):
    """Keep observations in float64; the default type stays float32."""
    monkeypatch.setattr(Flat, "forward", lambda self, obs: obs)


@pytest.fixture(params=["one after the other", "all at once"])
def grouping(request, monkeypatch):
    """Compute stacked networks one after the other, as on the CPU, or all at once, as on a GPU."""
    if request.param == "all at once":
        monkeypatch.setattr(batched_layers, "at_once", lambda device: True)
