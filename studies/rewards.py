"""Rewards of the study relabeled_data.yaml, for --relabel."""

from __future__ import annotations

from typing import Any

import numpy as np


def turning(obs: Any, action: Any, next_obs: Any, **columns: Any) -> Any:
    """Pendulum: turn at 6 radians per second."""
    return -((next_obs[:, 2] - 6.0) ** 2) / 36.0 - 0.001 * action[:, 0] ** 2


def backwards(obs: Any, action: Any, next_obs: Any, **columns: Any) -> Any:
    """HalfCheetah: the environment's reward with the opposite sign of the velocity (observation 8)."""
    control = 0.1 * np.square(action).sum(axis=1)
    return -(columns["reward"] + control) - control
