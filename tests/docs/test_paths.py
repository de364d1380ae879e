"""A reward and an argument of NMER pass the files that docs/concepts.md lists."""

import re
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import gymnasium as gym
import numpy as np
import pytest
import torch

import custom_training
from interreplay.buffer.replay_buffer import ReplayBuffer
from interreplay.experiments.commands import preparation
from interreplay.experiments.flags import training_flags
from interreplay.experiments.flags.training_flags import RunSettings
from interreplay.neighborhood import KNN
from tests.rllib.small_runs import config

ROOT = Path(__file__).resolve().parents[2]
LINE = "--env Pendulum-v1 --preset none --buffer NMER --buffer_arg k=7"
REWARD = np.float32(-0.6180339)
"""Reward of every step; no other number has this value."""
OFF_PATH = {
    ("rllib/env_runner/runner_state.py", "step"),
    ("diagnostics/batch_statistics.py", None),
    ("rllib/algorithms/learner.py", "observe"),
}
"""Files, or single functions of files, that observe transitions off the path."""


def holds(value: Any, matches: Callable[[Any], bool]) -> bool:
    """Return whether a value, or a value that it contains, matches; entries of a dict are pairs."""
    if matches(value):
        return True
    if isinstance(value, dict):
        return any(holds(item, matches) for item in value.items())
    if isinstance(value, np.void) and value.dtype.names:
        return any(holds(value[name], matches) for name in value.dtype.names)
    if isinstance(value, list | tuple):
        return any(holds(item, matches) for item in value)
    return (is_dataclass(value) or isinstance(value, RunSettings)) and holds(vars(value), matches)


def path_of(matches: Callable[[Any], bool], act: Callable[[], Any]) -> list[str]:
    """Return the files of the packages whose functions receive or return a match while `act` runs, in order."""
    found: list[str] = []

    def look(frame: FrameType, event: str, answer: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event not in ("call", "return") or not path.is_relative_to(ROOT):
            return
        name = str(path.relative_to(ROOT)).removeprefix("interreplay/")
        if name in found or name.startswith((".venv", "tests")):
            return
        passed = frame.f_locals.copy() if event == "call" else answer  # of a call, only the arguments
        code = frame.f_code
        if not {(name, code.co_name), (name, None)} & OFF_PATH and holds(passed, matches):
            found.append(name)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        act()
    finally:
        sys.setprofile(before)
    return found


def documented(section: str) -> list[str]:
    page = (ROOT / "docs" / "concepts.md").read_text()
    listed = page.split(f"## {section}")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([^`]+)`", listed, flags=re.MULTILINE)


def constant_rewards(context: Any) -> gym.Env:
    """Create an environment with the same reward in every step."""
    return gym.wrappers.TransformReward(gym.make("Pendulum-v1"), lambda reward: float(REWARD))


def is_reward(value: Any) -> bool:
    if isinstance(value, float | np.floating):
        return bool(np.float32(value) == REWARD)
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() and bool((value.detach() == float(REWARD)).any())
    if isinstance(value, np.ndarray) and not value.dtype.names:
        return value.dtype.kind == "f" and bool((value.astype(np.float32) == REWARD).any())
    return False


@pytest.mark.slow
def test_the_path_of_a_transition_is_as_documented(cluster):
    algorithm = config(constant_rewards).training(learning_starts=20, steps_per_iteration=30).build_algo()
    algorithm.train()  # beyond the warm-up
    assert path_of(is_reward, algorithm.training_step) == documented("The path of a transition")
    algorithm.stop()


class _Built(Exception):
    """Raised when KNN(k=7) is constructed."""


def test_the_path_of_a_flag_is_as_documented_and_at_most_ten_files(monkeypatch, tmp_path):
    def arrived(self: KNN, k: int) -> None:
        raise _Built(k)

    def act() -> None:
        with pytest.raises(_Built, match="7"):
            custom_training.main([*LINE.split(), "--output_dir", str(tmp_path)])

    monkeypatch.setattr(KNN, "__init__", arrived)
    is_k = lambda value: isinstance(value, str | tuple) and value in ("k=7", ("k", 7))
    found = {*path_of(is_k, act), "neighborhood/knn.py"}  # its __init__ is replaced here
    assert found == set(documented("The path of a flag")) and len(found) <= 10


def test_the_settings_are_resolved_once_and_the_checked_buffer_is_used(monkeypatch, tmp_path):
    from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm

    def spied(owner: Any, name: str) -> mock.Mock:
        """Record the calls of a function."""
        function = getattr(owner, name)
        monkeypatch.setattr(owner, name, mock.create_autospec(function, side_effect=function))
        return getattr(owner, name)

    built = spied(ReplayBuffer, "__init__")
    resolved = spied(training_flags, "resolve_settings")
    estimated = spied(preparation, "estimate")
    prepared = spied(OffPolicyAlgorithm, "_prepare")
    steps = "--total_env_steps 40 --learning_starts 30 --train_batch_size 8 --evaluation_interval 0 --hiddens 8,8"
    assert custom_training.main([*LINE.split(), *steps.split(), "--output_dir", str(tmp_path)]) == 0
    assert resolved.call_count == 1
    (buffer,) = [call.args[0] for call in built.call_args_list]
    assert [call.args[2] for call in estimated.call_args_list] == [buffer]
    assert [call.args[0].replay_buffer for call in prepared.call_args_list] == [buffer]
