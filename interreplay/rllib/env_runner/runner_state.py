"""What a runner needs to go on where it was: random generators, episodes and, where they can be saved, environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interreplay.rllib.env_runner.env_state import can_save, restore_env, save_env

if TYPE_CHECKING:
    from interreplay.rllib.env_runner.runner import ColumnRunner


def environments(runner: ColumnRunner) -> list[Any]:
    """The environments inside a runner's vector environment, one by one."""
    return list(getattr(runner.env.unwrapped, "envs", []))


def save(runner: ColumnRunner) -> dict[str, Any]:
    """The state of a runner; without its environments where one of them cannot be saved."""
    envs = environments(runner)
    saved = runner._obs is not None and len(envs) == runner.num_envs and all(map(can_save, envs))
    return {
        "torch_rng": runner._torch_rng.get_state().numpy(),
        "numpy_rng": runner._numpy_rng.bit_generator.state,
        "exploration": runner._exploration.state_dict(),
        "log": runner._log.state(),
        "steps_since_report": runner._steps_since_report,
        "obs": runner._obs,
        "over": runner._over.copy(),
        "seeded": runner._seeded,
        "needs_reset": runner._needs_initial_reset,
        "envs": [save_env(env) for env in envs] if saved else None,
    }


def load(runner: ColumnRunner, state: dict[str, Any]) -> None:
    """Continue from what `save` gave; where the environments were not saved, at the start of an episode."""
    runner._torch_rng.set_state(torch.as_tensor(np.array(state["torch_rng"])))
    runner._numpy_rng.bit_generator.state = state["numpy_rng"]
    runner._exploration.load_state_dict(state["exploration"])
    runner._log.load(state["log"])
    runner._steps_since_report = int(state["steps_since_report"])
    runner._obs, runner._over, runner._seeded = state["obs"], np.array(state["over"]), state["seeded"]
    runner._needs_initial_reset = state["needs_reset"] or state["envs"] is None
    if state["obs"] is None:
        return  # it had not begun, as one that evaluates before the first evaluation
    if state["envs"] is None:
        # A seeded reset would replay the run's first episodes.
        runner._env_seed = int(runner._numpy_rng.integers(2**31))
        runner._seeded = False
        return
    runner.env.reset()
    for env, saved in zip(environments(runner), state["envs"], strict=True):
        restore_env(env, saved)
    runner.env.unwrapped._autoreset_envs = runner._over.copy()
