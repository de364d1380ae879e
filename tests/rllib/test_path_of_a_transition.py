"""The path of a transition through the package: as documented in docs/concepts.md."""

import re
import sys
from dataclasses import is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from tests.rllib.small_runs import config

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = f"{ROOT / 'interreplay'}/"
REWARD = np.float32(-0.6180339)
"""Reward of every step; no other number has this value."""
OFF_PATH = {
    ("rllib/env_runner/runner_state.py", "step"),
    ("diagnostics/batch_statistics.py", None),
    ("rllib/algorithms/learner.py", "observe"),
}
"""Files, or single functions of files, that observe transitions off the path."""


def constant_rewards(context: Any) -> gym.Env:
    """Create an environment with the same reward in every step."""
    return gym.wrappers.TransformReward(gym.make("Pendulum-v1"), lambda reward: float(REWARD))


def holds(value: Any) -> bool:
    """Return whether the reward is in a value: a number, an array or a container."""
    if isinstance(value, float | np.floating):
        return bool(np.float32(value) == REWARD)
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() and bool((value.detach() == float(REWARD)).any())
    if isinstance(value, np.ndarray | np.void):
        if value.dtype.names:
            return any(holds(value[name]) for name in value.dtype.names)
        return value.dtype.kind == "f" and bool((value.astype(np.float32) == REWARD).any())
    if isinstance(value, dict):
        return any(map(holds, value.values()))
    if isinstance(value, list | tuple):
        return any(map(holds, value))
    return is_dataclass(value) and any(map(holds, vars(value).values()))


def path_of_the_reward(act: Any) -> list[str]:
    """Return the files of the package whose functions receive or return the reward while `act` runs, in order."""
    found: list[str] = []

    def look(frame: FrameType, event: str, answer: Any) -> None:
        file = frame.f_code.co_filename
        if event not in ("call", "return") or not file.startswith(PACKAGE):
            return
        name = file.removeprefix(PACKAGE)
        if name in found or {(name, frame.f_code.co_name), (name, None)} & OFF_PATH:
            return
        code = frame.f_code
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if holds([frame.f_locals.get(argument) for argument in arguments] if event == "call" else answer):
            found.append(name)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        act()
    finally:
        sys.setprofile(before)
    return found


def documented() -> list[str]:
    page = (ROOT / "docs" / "concepts.md").read_text()
    section = page.split("## The path of a transition")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([^`]+)`", section, flags=re.MULTILINE)


@pytest.mark.slow
def test_the_path_is_as_documented():
    algorithm = config(constant_rewards).training(learning_starts=20, steps_per_iteration=30).build_algo()
    algorithm.train()  # beyond the warm-up
    assert path_of_the_reward(algorithm.training_step) == documented()
