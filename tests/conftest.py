"""One thread for every test; `builders` beside this file makes the data."""

from __future__ import annotations

import sys

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _no_watch_on_the_machine():
    """Without RLlib's thread per algorithm that reads the machine's load: it delays the end of each by up to .7 s."""
    if trainable := sys.modules.get("ray.tune.trainable.trainable"):
        monitor = trainable.UtilMonitor
        trainable.UtilMonitor = lambda start: monitor(start=False)
