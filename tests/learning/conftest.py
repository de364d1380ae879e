"""What tests of updates share: numbers wide enough to tell rounding from mistakes."""

from __future__ import annotations

import pytest
import torch

from interreplay.learning.networks.encoders import Flat


@pytest.fixture
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def flat_float64(float64, monkeypatch):
    """Observations are float32 to the networks otherwise."""
    monkeypatch.setattr(Flat, "forward", lambda self, obs: obs)
