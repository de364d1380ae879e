"""Termination functions agree with the environments that they are named after, on random states."""

import math
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch

from interreplay.environments import registration
from interreplay.environments.terminations import KNOWN, termination_function
from replay_buffers import NMER

# Spread around the initial positions per environment: heights and tilts are such that both outcomes occur.
MUJOCO = {
    "Hopper-v5": ([0.0, 0.5, 0.2, 0.3, 0.3, 0.3], 5.0, {}),
    "Hopper-v4": ([0.0, 0.5, 0.2, 0.3, 0.3, 0.3], 5.0, {}),
    "Walker2d-v5": ([0.0, 0.6, 0.8, *[0.3] * 6], 3.0, {}),
    "Ant-v5": ([0.5, 0.5, 0.5, *[0.3] * 12], 1.0, {}),
    "Humanoid-v5": ([0.5, 0.5, 0.5, *[0.1] * 21], 1.0, {}),
    "InvertedPendulum-v5": ([0.3, 0.2], 1.0, {}),
    "InvertedDoublePendulum-v5": ([0.3, 0.7, 0.7], 1.0, {}),
    "HalfCheetah-v5": ([0.5] * 9, 3.0, {}),
    "Swimmer-v5": ([0.5] * 5, 3.0, {}),
    "Reacher-v5": ([0.3] * 4, 1.0, {}),
    "Pusher-v5": ([0.1] * 11, 1.0, {}),
    "HumanoidStandup-v5": ([0.1] * 24, 1.0, {}),
}
OPTIONS = {
    "Hopper-v5": (
        MUJOCO["Hopper-v5"][:2],
        {"healthy_angle_range": (-0.05, 0.3), "healthy_state_range": (-8.0, 8.0), "healthy_z_range": (0.9, 1.4)},
    ),
    "Walker2d-v5": (
        MUJOCO["Walker2d-v5"][:2],
        {"exclude_current_positions_from_observation": False, "healthy_z_range": (1.0, 1.5)},
    ),
    "Ant-v5": (MUJOCO["Ant-v5"][:2], {"exclude_current_positions_from_observation": False}),
    "Humanoid-v5": (MUJOCO["Humanoid-v5"][:2], {"terminate_when_unhealthy": False}),
}
CASES = [(name, spread, speed, options) for name, (spread, speed, options) in MUJOCO.items()]
CASES += [(name, *about, options) for name, (about, options) in OPTIONS.items()]
CLASSIC = {
    "CartPole-v1": [2.0, 1.0, 0.2, 1.0],
    "Acrobot-v1": [3.0, 3.0, 1.0, 1.0],
    "MountainCar-v0": [0.5, 0.05],
    "MountainCarContinuous-v0": [0.5, 0.05],
    "Pendulum-v1": [3.0, 5.0],
}
ENDLESS = {"HalfCheetah", "Swimmer", "Reacher", "Pusher", "HumanoidStandup", "Pendulum"}
"""Environments that terminate nowhere; few states show it."""


def endless(name, options):
    return name.partition("-")[0] in ENDLESS or options.get("terminate_when_unhealthy") is False


def check(env, put, count):
    """Compare terminations of the environment and of the function after steps from states that `put` sets."""
    rng = np.random.default_rng(0)
    env.action_space.seed(0)
    env.reset(seed=0)
    terminated_by_simulator = []
    following = []
    actions = []
    for _ in range(count):
        put(rng)
        action = env.action_space.sample()
        after, _, terminated, *_ = env.step(action)
        terminated_by_simulator.append(terminated)
        following.append(np.asarray(after, np.float32))
        actions.append(action)
    rows = torch.from_numpy(np.stack(following))
    found = termination_function(env.spec.id, env.spec.kwargs)(rows, torch.from_numpy(np.stack(actions)), rows)
    assert found.dtype == torch.bool and found.tolist() == terminated_by_simulator
    if endless(env.spec.id, env.spec.kwargs):
        assert not any(terminated_by_simulator)
    else:
        assert 0.05 < np.mean(terminated_by_simulator) < 0.95


@pytest.mark.parametrize(("name", "spread", "speed", "options"), CASES)
def test_mujoco(name, spread, speed, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = gym.make(name, **options).unwrapped

    def put(rng):
        moved = np.zeros(env.model.nq)
        moved[: len(spread)] = rng.normal(size=len(spread)) * spread
        env.set_state(env.init_qpos + moved, rng.normal(size=env.model.nv) * speed)

    check(env, put, 200 if endless(name, options) else 1_000)


@pytest.mark.parametrize("name", CLASSIC)
def test_classic_control(name):
    env, spread = gym.make(name).unwrapped, CLASSIC[name]

    def put(rng):
        env.reset(seed=0)
        env.state = rng.normal(size=len(spread)) * spread
        if name.startswith("Mountain"):
            env.state = np.clip(env.state + [0.3, 0.0], [-1.2, -0.07], [0.6, 0.07])

    check(env, put, 200 if endless(name, {}) else 2_000)


@pytest.mark.parametrize(
    ("name", "options"),
    [("FetchReach-v4", {}), ("PointMaze_UMaze-v3", {}), ("PointMaze_UMaze-v3", {"continuing_task": False})],
)
def test_goals(name, options):
    registration.register(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = gym.make(name, **options).unwrapped
    rng = np.random.default_rng(0)
    size = env.observation_space["achieved_goal"].shape
    goals = rng.normal(scale=0.4, size=(2, 10_000, *size))
    terminated_by_simulator = [bool(env.compute_terminated(one, other, {})) for one, other in zip(*goals, strict=True)]
    achieved, desired = torch.from_numpy(goals)
    rows = {"achieved_goal": achieved, "desired_goal": desired}
    found = termination_function(name, options)(rows, torch.zeros(10_000, 2), rows)
    assert found.tolist() == terminated_by_simulator and any(terminated_by_simulator) == bool(options)


def test_an_environment_without_a_termination_function_is_rejected():
    with pytest.raises(ValueError, match=r"no termination function for 'Hoper-v5'; did you mean Hopper.*own"):
        termination_function("Hoper-v5")
    with pytest.raises(ValueError, match="no termination function for 'LunarLander-v3'") as refused:
        NMER(capacity=5, termination_fn="LunarLander-v3")
    assert "\n" not in str(refused.value)


def test_names_with_modules_and_never():
    rows = torch.tensor([[0.0, 0.3, 0.0, 0.0], [0.0, math.nan, 0.0, 0.0], [0.0, 0.1, 0.0, 0.0]])
    assert termination_function("my.envs:InvertedPendulum-v2")(rows, rows, rows).tolist() == [True, True, False]
    assert not termination_function("never")(rows, rows, rows).any()
    for name in KNOWN:
        assert pickle.loads(pickle.dumps(termination_function(name, {"healthy_z_range": (0.0, 1.0)})))
