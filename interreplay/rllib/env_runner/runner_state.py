"""The state of a runner: random generators, running episodes and, if they can be saved, environments.

Gymnasium has no interface to save environments. Its MuJoCo and classic-control environments, Fetch and PointMaze of
gymnasium-robotics, and the wrappers of `gymnasium.make` keep everything in plain attributes, numpy arrays, a random
generator, MuJoCo's `MjData`, and inner environments; these are copied. Environments and wrappers that keep more, such
as MinAtar, implement `save_state` and `restore_state`, so that a run resumes in the middle of an episode.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from interreplay.diagnostics.episode_table import EPISODE_LENGTH, EPISODE_RETURN
from interreplay.errors import InterreplayWarning
from interreplay.learning.exploration import Exploration
from interreplay.learning.update import SUCCESS_COLUMN
from interreplay.runs.state_files.arrays import encode
from interreplay.storage.state_copies import restore_generator
from interreplay.transitions import map_observation

IDS_PER_RUNNER = 1 << 40
REPORTED_SUCCESS = "reported_success"
"""Requests successes of steps for which an environment reports them; other steps have no such column."""

KNOWN = (
    "gymnasium.envs.mujoco.",
    "gymnasium.envs.classic_control.",
    "gymnasium_robotics.envs.fetch.",
    "gymnasium_robotics.envs.maze.point",
    "interreplay.environments.",
)
PLAIN = (bool, int, float, str, type(None), np.ndarray, np.generic)
KEEP = ("spec", "metadata", "render_mode", "observation_space", "action_space")
WRAPPERS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RescaleAction", "ClipAction", "FlattenObservation")

Names = Collection[str]
"""Names of columns that are recorded with the transitions: "behavior", "success", and `REPORTED_SUCCESS`."""


def read_success(info: Any) -> Any:
    """Return the success that an environment's info reports: a number, or an array with one element; else None."""
    if not isinstance(info, dict):
        return None
    success = info.get("is_success", info.get("success"))
    if isinstance(success, np.ndarray) and success.size == 1:
        return success.item()
    return success if isinstance(success, bool | int | float | np.bool_ | np.number) else None


def read_infos(names: Names, infos: Sequence[Any]) -> dict[str, np.ndarray]:
    """Return the named columns ``(n,)`` that come from infos: whether each step was a success."""
    reported = REPORTED_SUCCESS in names and any(read_success(info) is not None for info in infos)
    if not (reported or SUCCESS_COLUMN in names):
        return {}
    return {SUCCESS_COLUMN: np.array(list(map(read_success, infos))).astype(bool)}


@dataclass
class FinishedEpisode:
    """An episode that ended: its length in steps, return, duration in seconds, success, and id."""

    length: int
    ret: float
    seconds: float
    success: float | None
    id: int = -1


class EpisodeLog:
    """Ids, returns and lengths of the running episodes of n environments, whose ids begin with `first`."""

    def __init__(self, num_envs: int, first: int):
        self.next_id = first
        self.ids = np.full(num_envs, -1, dtype=np.int64)
        self.returns = np.zeros(num_envs)
        self.lengths = np.zeros(num_envs, dtype=np.int64)
        self.started = np.full(num_envs, time.perf_counter())
        self.finished: list[FinishedEpisode] = []

    def start(self, which: np.ndarray) -> None:
        """Begin new episodes in the environments `which` ``(n,)`` bool."""
        count = int(which.sum())
        self.ids[which] = np.arange(self.next_id, self.next_id + count)
        self.next_id += count
        self.returns[which] = 0.0
        self.lengths[which] = 0
        self.started[which] = time.perf_counter()

    def step(self, live: np.ndarray, rewards: np.ndarray, done: np.ndarray, infos: Any) -> None:
        """Count one step of the environments `live` ``(n,)`` bool, and close the episodes that are done."""
        self.returns += rewards * live
        self.lengths += live
        for i in np.flatnonzero(done & live):
            success = read_success(infos[i])
            self.finished.append(
                FinishedEpisode(
                    length=int(self.lengths[i]),
                    ret=float(self.returns[i]),
                    seconds=time.perf_counter() - self.started[i],
                    success=None if success is None else float(success),
                    id=int(self.ids[i]),
                )
            )

    def columns(self, done: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of `EpisodeTable` after a step: NaN instead of the return while an episode continues."""
        return {EPISODE_RETURN: np.where(done, self.returns, np.nan), EPISODE_LENGTH: self.lengths.copy()}

    def take_finished(self) -> list[FinishedEpisode]:
        """Return the episodes that ended since the last call."""
        finished = self.finished
        self.finished = []
        return finished

    def state(self) -> dict[str, Any]:
        return {
            "next_id": self.next_id,
            "ids": self.ids.copy(),
            "returns": self.returns.copy(),
            "lengths": self.lengths.copy(),
            "finished": list(map(vars, self.finished)),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.next_id = int(state["next_id"])
        self.ids = np.array(state["ids"])
        self.returns = np.array(state["returns"])
        self.lengths = np.array(state["lengths"])
        self.finished = [FinishedEpisode(**episode) for episode in state["finished"]]
        self.started = np.full(len(self.ids), time.perf_counter())


@dataclass
class RunnerState:
    """The state of a runner between two steps."""

    index: int  # 0 for the runner in the learner's process
    env_seed: int  # of the environments' next reset, unless `seeded`
    torch_rng: torch.Generator  # of exploration
    numpy_rng: np.random.Generator  # of uniform actions
    exploration: Exploration  # the runner's own copy
    log: EpisodeLog  # the running episodes
    over: np.ndarray  # environments ``(n,)`` that begin another episode at the next step
    obs: Any = None  # current observations; None before the first reset
    seeded: bool = False  # whether a reset has used `env_seed`; later resets are not seeded
    steps_since_report: int = 0  # env steps that no metrics report has counted yet
    evaluated: int = 0  # episodes in finished evaluations, from which the next evaluation's numbers continue

    def resize(self, num_envs: int) -> list[int]:
        """Start again with another number of environments, keeping the generators; return the interrupted episodes."""
        interrupted = self.interrupted()
        self.log = EpisodeLog(num_envs, first=self.log.next_id)
        self.over = np.zeros(num_envs, dtype=bool)
        self.obs = None
        return interrupted

    def interrupted(self) -> list[int]:
        """Return the ids of running episodes, which a reset interrupts."""
        return self.log.ids[(self.log.lengths > 0) & ~self.over].tolist()

    def seed_next_reset(self, seed: int) -> None:
        """Seed the environments at the next reset."""
        self.env_seed = seed
        self.seeded = False

    def state_dict(self, env: Any, needs_reset: bool) -> dict[str, Any]:
        """Return everything as plain values and arrays."""
        envs = environments(env)
        saved = None
        if self.obs is not None and len(envs) == len(self.over):
            saved = save_envs(envs)
        return {
            "index": self.index,
            "env_seed": self.env_seed,
            "torch_rng": self.torch_rng.get_state().numpy(),
            "numpy_rng": self.numpy_rng.bit_generator.state,
            "exploration": self.exploration.state_dict(),
            "exploration_class": type(self.exploration).__qualname__,
            "log": self.log.state(),
            "steps_since_report": self.steps_since_report,
            "evaluated": self.evaluated,
            "obs": self.obs,
            "over": self.over.copy(),
            "seeded": self.seeded,
            "needs_reset": needs_reset,
            "envs": saved,
        }

    def load_state_dict(self, state: dict[str, Any], env: Any) -> bool:
        """Continue from `state_dict`; at the start of an episode if the environments were not saved or differ.

        Returns:
            Whether the next step resets the environments.
        """
        restore_generator(self.torch_rng, state["torch_rng"])
        self.numpy_rng.bit_generator.state = state["numpy_rng"]
        own = type(self.exploration).__qualname__
        if state.get("exploration_class", own) == own:  # the parent of a fork may explore differently
            self.exploration.load_state_dict(state["exploration"])
        self.log.load(state["log"])
        self.env_seed = int(state.get("env_seed", self.env_seed))
        self.steps_since_report = int(state["steps_since_report"])
        self.evaluated = int(state["evaluated"])
        self.obs = state["obs"]
        if self.obs is not None:  # Ray's arrays may be aligned differently from new ones
            self.obs = map_observation(np.array, self.obs)
        self.over = np.array(state["over"])
        self.seeded = state["seeded"]
        needs_reset = bool(state["needs_reset"]) or state["envs"] is None
        if state["obs"] is None:
            return needs_reset  # it had made no step, like an evaluation runner before the first evaluation
        if state["envs"] is None or len(state["envs"]) != len(environments(env)):
            # A reset with the original seed would replay the run's first episodes.
            self.seed_next_reset(int(self.numpy_rng.integers(2**31)))
            return True
        env.reset()
        for one, saved in zip(environments(env), state["envs"], strict=True):
            restore_env(one, saved)
        env.unwrapped._autoreset_envs = self.over.copy()
        return needs_reset


def environments(env: Any) -> list[Any]:
    """Return the environments inside a vector environment, [] if they are not accessible."""
    return list(getattr(env.unwrapped, "envs", []))


# -- environments ------------------------------------------------------------------------------------


def chain(env: gym.Env) -> list[gym.Env]:
    """Return the environment and its wrappers, the outermost first."""
    layers = [env]
    while isinstance(layers[-1], gym.Wrapper):
        layers.append(layers[-1].env)
    return layers


def can_save(env: gym.Env) -> bool:
    """Return whether `save_env` captures the complete state of this environment."""
    *wrappers, core = map(type, chain(env))
    for kind in wrappers:
        known = kind.__name__ in WRAPPERS and kind.__module__.startswith("gymnasium.")
        if not known and not _has_methods(kind):
            return False
    return core.__module__.startswith(KNOWN) or _has_methods(core)


def _has_methods(kind: type) -> bool:
    return hasattr(kind, "save_state") and hasattr(kind, "restore_state")


def save_envs(envs: Sequence[gym.Env]) -> list[list[dict[str, Any]]] | None:
    """Return the states of environments; None if one cannot be saved.

    A value of `save_state` that checkpoints cannot contain causes a warning.
    """
    if not all(map(can_save, envs)):
        return None
    states = list(map(save_env, envs))
    try:
        encode(states, {})
    except TypeError as error:
        name = type(envs[0].unwrapped).__name__
        message = f"the state of {name} cannot be saved: {error}; a resumed run starts a new episode"
        warnings.warn(message, InterreplayWarning, stacklevel=2)
        return None
    return states


def save_env(env: gym.Env) -> list[dict[str, Any]]:
    """Return the state of every layer, made of plain values and arrays."""
    return list(map(_save_layer, chain(env)))


def restore_env(env: gym.Env, state: list[dict[str, Any]]) -> None:
    """Restore a saved state in an environment of the same kind."""
    for layer, saved in zip(chain(env), state, strict=True):
        _restore_layer(layer, saved)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, PLAIN) and not (isinstance(value, np.ndarray) and value.dtype == object)


def _save_layer(layer: gym.Env) -> dict[str, Any]:
    values = {}
    owners = [base for base in type(layer).__mro__ if "save_state" in vars(base)]
    known = any(owner.__module__.startswith(KNOWN) for owner in owners)  # theirs leaves out plain attributes
    if known or not _has_methods(type(layer)):  # a copy of an attribute may be a view of a simulator's memory
        for name, value in vars(layer).items():
            if name.lstrip("_") not in KEEP and _is_plain(value):
                values[name] = copy.deepcopy(value)
    state: dict[str, Any] = {"values": values}
    rng = vars(layer).get("_np_random")
    if isinstance(rng, np.random.Generator):
        state["rng"] = rng.bit_generator.state
    if "data" in vars(layer) and "model" in vars(layer):
        state["mujoco"] = _save_mujoco(layer.model, layer.data)  # type: ignore[attr-defined]
    if hasattr(type(layer), "save_state"):
        state["own"] = copy.deepcopy(layer.save_state())  # type: ignore[attr-defined]
    state["within"] = {name: _save_layer(env) for name, env in _inner_envs(layer).items()}
    return state


def _inner_envs(layer: gym.Env) -> dict[str, gym.Env]:
    """Return the environments in the attributes of an environment that is not a wrapper."""
    if isinstance(layer, gym.Wrapper):
        return {}
    return {name: value for name, value in vars(layer).items() if isinstance(value, gym.Env)}


def _restore_layer(layer: gym.Env, state: dict[str, Any]) -> None:
    vars(layer).update(copy.deepcopy(state["values"]))
    if "rng" in state:
        layer.np_random.bit_generator.state = state["rng"]
    if "mujoco" in state:
        _restore_mujoco(layer.model, layer.data, state["mujoco"])  # type: ignore[attr-defined]
    if "own" in state:
        layer.restore_state(copy.deepcopy(state["own"]))  # type: ignore[attr-defined]
    for name, env in _inner_envs(layer).items():
        _restore_layer(env, state["within"][name])


def _save_mujoco(model: Any, data: Any) -> dict[str, np.ndarray]:
    """Return MuJoCo's integration state, and every derived array that observations and rewards may read."""
    import mujoco

    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    full = np.empty(mujoco.mj_stateSize(model, spec))
    mujoco.mj_getState(model, data, full, spec)
    return {"integration": full, **{f"data.{name}": value.copy() for name, value in _arrays(data).items()}}


def _restore_mujoco(model: Any, data: Any, state: dict[str, np.ndarray]) -> None:
    import mujoco

    mujoco.mj_setState(model, data, state["integration"], mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_forward(model, data)
    for name, value in _arrays(data).items():
        saved = state.get(f"data.{name}")
        if saved is not None and saved.shape == value.shape:
            value[...] = saved


def _arrays(data: Any) -> dict[str, np.ndarray]:
    found = {}
    for name in dir(data):
        if name.startswith("_"):
            continue
        value = getattr(data, name, None)
        if isinstance(value, np.ndarray) and value.flags.writeable:
            found[name] = value
    return found
