"""Save and restore the state of environments, so that a run resumes in the middle of an episode.

Gymnasium has no interface for this. Its MuJoCo and classic-control environments, Fetch and PointMaze of
gymnasium-robotics, and the wrappers of `gymnasium.make` keep everything in plain attributes, numpy arrays, a random
generator, MuJoCo's `MjData`, and inner environments; these are copied. Environments and wrappers that keep more, such
as MinAtar, implement `save_state` and `restore_state`.
"""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np

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


def chain(env: gym.Env) -> list[gym.Env]:
    """Return the environment and its wrappers, the outermost first."""
    layers = [env]
    while isinstance(layers[-1], gym.Wrapper):
        layers.append(layers[-1].env)
    return layers


def can_save(env: gym.Env) -> bool:
    """Return whether `save_env` captures the complete state of this environment."""
    *wrappers, core = chain(env)
    return type(core).__module__.startswith(KNOWN) and all(_can_save_wrapper(type(wrapper)) for wrapper in wrappers)


def _can_save_wrapper(kind: type) -> bool:
    known = kind.__name__ in WRAPPERS and kind.__module__.startswith("gymnasium.")
    return known or hasattr(kind, "save_state")


def save_env(env: gym.Env) -> list[dict[str, Any]]:
    """Return the state of every layer, made of plain values and arrays."""
    return [_save_layer(layer) for layer in chain(env)]


def restore_env(env: gym.Env, state: list[dict[str, Any]]) -> None:
    """Restore a saved state in an environment of the same kind."""
    for layer, saved in zip(chain(env), state, strict=True):
        _restore_layer(layer, saved)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, PLAIN) and not (isinstance(value, np.ndarray) and value.dtype == object)


def _save_layer(layer: gym.Env) -> dict[str, Any]:
    attributes = {name: value for name, value in vars(layer).items() if name.lstrip("_") not in KEEP}
    values = {name: copy.deepcopy(value) for name, value in attributes.items() if _is_plain(value)}
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
    derived = {f"data.{name}": value.copy() for name, value in _arrays(data).items()}
    return {"integration": full, **derived}


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
