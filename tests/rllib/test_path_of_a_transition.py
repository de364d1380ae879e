"""The path of a transition through the package: as documented in docs/concepts.md, and short."""

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

from interreplay.rllib import SACConfig

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
MAX_FILES = {"Uniform": (18, 36), "NMER": (18, 45)}
"""Files that a transition passes, and files executed for one step and one update, by replay method."""


class OneReward(gym.Env):
    """An environment with the same reward in every step, in episodes of 50 steps."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, config: Any = None):
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), float(REWARD), False, self.steps >= 50, {}


@pytest.fixture(scope="module", params=MAX_FILES)
def algorithm(request):
    config = SACConfig().environment(OneReward).replay(request.param, capacity=1_000).debugging(seed=0)
    config.training(
        hiddens=(8, 8),
        train_batch_size_per_learner=8,
        num_steps_sampled_before_learning_starts=20,
        steps_per_iteration=30,
    )
    made = config.build_algo()
    made.train()  # beyond the warm-up
    yield made
    made.stop()


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
def test_the_path_is_as_documented_and_short(algorithm):
    method = algorithm.config.replay_buffer_config["type"]
    path = path_of_the_reward(algorithm.training_step)
    assert method != "Uniform" or path == documented()
    assert len(path) <= MAX_FILES[method][0], path


@pytest.mark.slow
def test_few_files_are_executed_for_one_step_and_one_update(algorithm):
    executed: set[str] = set()

    def look(frame: FrameType, event: str, answer: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            executed.add(frame.f_code.co_filename.removeprefix(PACKAGE))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        algorithm._sample()
        algorithm._learn()
    finally:
        sys.setprofile(before)
    assert len(executed) <= MAX_FILES[algorithm.config.replay_buffer_config["type"]][1], sorted(executed)


def test_the_glossary_is_short():
    section = (ROOT / "docs" / "concepts.md").read_text().split("## Glossary")[1].split("\n## ")[0]
    words = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| word")]
    assert 0 < len(words) <= 25
