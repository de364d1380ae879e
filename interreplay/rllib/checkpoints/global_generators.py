"""Generators that environments or user code may draw from; ours have their own."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def global_rng() -> dict[str, Any]:
    """Return the states of Python's, numpy's and torch's global generators."""
    legacy = np.random.get_state()  # noqa: NPY002
    return {"python": random.getstate(), "numpy": legacy, "torch": torch.get_rng_state().numpy()}


def set_global_rng(state: dict[str, Any]) -> None:
    """Continue from `global_rng`."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(torch.as_tensor(np.array(state["torch"])))
