"""The point on a line, moved by nested actions with parts of different bounds and types."""

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from tests.rllib.spaces_envs import Line

PUSH = Box(-1, 1, (1,), np.float32)
FORCES = Box(np.array([[0.0, -3.0]]), np.array([[4.0, 1.0]]), dtype=np.float64)
ACTIONS = {
    "Dict": Dict(push=PUSH, forces=FORCES),
    "Tuple": Tuple((PUSH, FORCES)),
    "Nested": Dict(arm=Dict(push=PUSH, rest=Tuple((FORCES, PUSH))), base=FORCES),
}
REJECTED = {
    "MultiDiscrete": MultiDiscrete([3, 3]),
    "MultiBinary": MultiBinary(4),
    "Mixed": Dict(push=PUSH, gear=Discrete(3)),
    "Unbounded": Box(-np.inf, np.inf, (2,), np.float32),
    "UnboundedWidth": Box(-np.finfo(np.float32).max, np.finfo(np.float32).max, (2,), np.float32),
    "UnboundedPart": Dict(push=PUSH, force=Box(0, np.inf, (1,), np.float32)),
}


class NestedActionLine(Line):
    """A point on a line; `actions` is a name in `ACTIONS` or `REJECTED`."""

    def __init__(self, actions, render_mode=None):
        super().__init__("Dict")
        self.action_space = (ACTIONS | REJECTED)[actions]

    def step(self, action):
        assert self.action_space.contains(action), action
        parts = [np.ravel(part) for part in gym.spaces.flatten(self.action_space, action)]
        return super().step(np.float32([np.tanh(np.concatenate(parts).sum())]))


for name in ACTIONS | REJECTED:
    gym.register(f"{name}Actions-v0", NestedActionLine, kwargs={"actions": name})
