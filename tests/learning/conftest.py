"""Fixtures of the tests of updates: float64, which separates rounding from mistakes."""

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
    """Keep observations in float64, which networks otherwise convert to float32."""
    monkeypatch.setattr(Flat, "forward", lambda self, obs: obs)


@pytest.fixture
def float64_rows(monkeypatch):
    """Keep observations in float64; the default type stays float32."""
    monkeypatch.setattr(Flat, "forward", lambda self, obs: obs)
