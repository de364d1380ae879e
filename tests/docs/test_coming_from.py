"""The page for users of other libraries: our names on it exist, and its Python code runs."""

import re
from dataclasses import fields
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from interreplay.experiments.commands.main import COMMANDS
from interreplay.experiments.flags.run_flags import FLAGS
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.settings import ReplaySettings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "coming-from.md").read_text()
ROWS = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("|") and "---" not in line]
OF_OTHERS = {"buffers", "envs", "seeds", "run"}
"""Flags of studies and of `rllib train`."""
OF_RLLIB = {"num_envs_per_env_runner", "gym_env_vectorize_mode", "capacity", "k", "alpha", "preset"}


def test_flags_on_our_side_are_flags():
    ours = " ".join(row[-1] for row in ROWS)
    named = {flag.replace("-", "_") for flag in re.findall(r"--([\w-]+)", ours)}
    assert len(named) > 15 and named - FLAGS.keys() - OF_OTHERS == set()
    assert {command for command in re.findall(r"`interreplay (\w+)", ours)} <= {*COMMANDS}


def test_settings_on_our_side_are_settings():
    known = {field.name for field in fields(ReplaySettings)}
    known |= {name for algorithm in ALGORITHMS.values() for name in algorithm.defaults}
    ours = " ".join(row[-1] for row in ROWS)
    named = set(re.findall(r"`(\w+)=", ours))
    assert {"updates_per_step", "initial_alpha"} <= named and named - known - OF_RLLIB == set()


@pytest.mark.slow
def test_its_python_trains_and_acts(cluster):
    here = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    short = here.replace("1_000_000", "150").replace("10_000", "100").replace("HalfCheetah-v5", "Pendulum-v1")
    env = gym.make("Pendulum-v1")
    scope = {"obs": env.reset(seed=0)[0]}
    exec(short.replace("updates_per_step=1", "updates_per_step=1, steps_per_iteration=75"), scope)
    assert env.action_space.contains(np.asarray(scope["action"]))
    scope["algo"].stop()
