"""Where a runner is: random generators, episodes and, where they can be saved, environments."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from interreplay.learning.exploration import Exploration
from interreplay.rllib.env_runner.env_state import can_save, restore_env, save_env
from interreplay.rllib.env_runner.episode_log import EpisodeLog

IDS_PER_RUNNER = 1 << 40
IDS_PER_RESTART = 1 << 28


@dataclass
class RunnerState:
    """Where a runner is between two steps.

    Attributes:
        index: Of the runner; 0 is the one in the learner's process.
        restarts: How often the runner's process was replaced by another; None in a process that was not asked for rows
            yet and does not know.
        env_seed: Seed of the environments' first reset.
        torch_rng: Randomness of exploration.
        numpy_rng: Randomness of uniform actions.
        exploration: How actions are chosen, with a memory of its own.
        log: The running episodes.
        over: Environments ``(n,)`` whose episode is over and that begin another at the next step.
        obs: Observations now, None before the first reset.
        seeded: Whether the first reset was made.
        steps_since_report: Env steps that no metrics report has counted yet.
        evaluated: Episodes of finished evaluations, which number those of the next one.
    """

    index: int
    restarts: int | None
    env_seed: int
    torch_rng: torch.Generator
    numpy_rng: np.random.Generator
    exploration: Exploration
    log: EpisodeLog
    over: np.ndarray
    obs: Any = None
    seeded: bool = False
    steps_since_report: int = 0
    evaluated: int = 0

    @classmethod
    def begin(
        cls,
        seed: int | None,
        index: int,
        num_envs: int,
        exploration: Exploration,
        device: torch.device,
        restarts: int | None = None,
        stream: int | None = None,
    ) -> RunnerState:
        """Return the state of a runner that has made no step: seeds and episode ids are no other process's.

        Args:
            seed: Of the run, None for a random one.
            index: Of the runner.
            num_envs: Number of its environments.
            exploration: Copied.
            device: On which actions are computed.
            restarts: How often its process was replaced.
            stream: Number of its randomness, its index by default.
        """
        stream = index if stream is None else stream
        sequence = np.random.SeedSequence(seed, spawn_key=(stream, restarts) if restarts else (stream,))
        env_seed, torch_seed = (int(s) for s in sequence.generate_state(2, np.uint32))
        return cls(
            index=index,
            restarts=restarts,
            env_seed=env_seed,
            torch_rng=torch.Generator(device=device).manual_seed(torch_seed),
            numpy_rng=np.random.default_rng(sequence),
            exploration=copy.deepcopy(exploration),
            log=EpisodeLog(num_envs, first=index * IDS_PER_RUNNER + (restarts or 0) * IDS_PER_RESTART),
            over=np.zeros(num_envs, dtype=bool),
        )

    def resize(self, num_envs: int) -> list[int]:
        """Begin anew with another number of environments, and return the episodes broken off; the generators stay."""
        broken_off = self.broken_off()
        self.log = EpisodeLog(num_envs, first=self.log.next_id)
        self.over, self.obs = np.zeros(num_envs, dtype=bool), None
        return broken_off

    def move(self, device: torch.device) -> None:
        """Draw exploration on another device."""
        self.torch_rng = torch.Generator(device=device).manual_seed(self.torch_rng.initial_seed())

    def broken_off(self) -> list[int]:
        """Return the ids of running episodes, which a reset breaks off."""
        return [int(i) for i in self.log.ids[(self.log.lengths > 0) & ~self.over]]

    def seed_next_reset(self, seed: int) -> None:
        """Seed the environments at the next reset."""
        self.env_seed, self.seeded = seed, False

    def state_dict(self, env: Any, needs_reset: bool) -> dict[str, Any]:
        """Return everything as plain values and arrays.

        Args:
            env: The vector environment, saved where every one inside can be.
            needs_reset: Whether the next step is to reset it.
        """
        envs = environments(env)
        saved = self.obs is not None and len(envs) == len(self.over) and all(map(can_save, envs))
        return {
            "index": self.index,
            "restarts": self.restarts,
            "torch_rng": self.torch_rng.get_state().numpy(),
            "numpy_rng": self.numpy_rng.bit_generator.state,
            "exploration": self.exploration.state_dict(),
            "log": self.log.state(),
            "steps_since_report": self.steps_since_report,
            "evaluated": self.evaluated,
            "obs": self.obs,
            "over": self.over.copy(),
            "seeded": self.seeded,
            "needs_reset": needs_reset,
            "envs": [save_env(env) for env in envs] if saved else None,
        }

    def load_state_dict(self, state: dict[str, Any], env: Any) -> bool:
        """Continue from what `state_dict` gave; at an episode's start where environments were not saved, or others.

        Returns:
            Whether the next step is to reset the environments.
        """
        self.restarts = state.get("restarts")
        self.torch_rng.set_state(torch.as_tensor(np.array(state["torch_rng"])))
        self.numpy_rng.bit_generator.state = state["numpy_rng"]
        self.exploration.load_state_dict(state["exploration"])
        self.log.load(state["log"])
        self.steps_since_report = int(state["steps_since_report"])
        self.evaluated = int(state.get("evaluated", 0))
        self.obs, self.over, self.seeded = state["obs"], np.array(state["over"]), state["seeded"]
        needs_reset = bool(state["needs_reset"]) or state["envs"] is None
        if state["obs"] is None:
            return needs_reset  # it had not begun, as one that evaluates before the first evaluation
        if state["envs"] is None or len(state["envs"]) != len(environments(env)):
            # A seeded reset would replay the run's first episodes.
            self.seed_next_reset(int(self.numpy_rng.integers(2**31)))
            return True
        env.reset()
        for one, saved in zip(environments(env), state["envs"], strict=True):
            restore_env(one, saved)
        env.unwrapped._autoreset_envs = self.over.copy()
        return needs_reset


def environments(env: Any) -> list[Any]:
    """Return the environments inside a vector environment one by one, [] where they are out of reach."""
    return list(getattr(env.unwrapped, "envs", []))
