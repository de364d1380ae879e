"""One small task with every kind of observation, and with nested actions: keep a point on a line near 0."""

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

SIDE = 24


def image(x):
    """Return an image with a bright column at the point."""
    picture = np.zeros((SIDE, SIDE), np.uint8)
    picture[:, int(np.clip((x + 2) / 4 * SIDE, 0, SIDE - 1))] = 255
    return picture


def bins(x, n):
    return int(np.clip((x + 2) / 4 * n, 0, n - 1))


VECTOR = Box(-5, 5, (2,), np.float32)
POINT = lambda x: np.array([x, x * x], np.float32)
# Space of each kind, and the observation of the point x.
KINDS = {
    "Box2D": (Box(-5, 5, (3, 2), np.float64), lambda x: np.full((3, 2), x)),
    "Discrete": (Discrete(9, start=-4), lambda x: np.int64(bins(x, 9) - 4)),
    "MultiDiscrete": (MultiDiscrete([5, 3]), lambda x: np.array([bins(x, 5), bins(x, 3)])),
    "MultiBinary": (MultiBinary(4), lambda x: np.array([x > t for t in (-1, 0, 0.5, 1)], np.int8)),
    "Dict": (Dict(b=VECTOR, a=Box(-5, 5, (1,), np.float32)), lambda x: {"a": POINT(x)[:1], "b": POINT(x)}),
    "Tuple": (Tuple((VECTOR, Discrete(5))), lambda x: (POINT(x), bins(x, 5))),
    "Nested": (
        Dict(arm=Dict(pose=VECTOR, grip=Discrete(2)), rest=Tuple((MultiBinary(2), VECTOR))),
        lambda x: {
            "arm": {"pose": POINT(x), "grip": int(x > 0)},
            "rest": (np.array([x > 0, x < 1], np.int8), POINT(x)),
        },
    ),
    "Image": (Box(0, 255, (SIDE, SIDE, 1), np.uint8), lambda x: image(x)[..., None]),
    "ImageAndVector": (
        Dict(camera=Box(0, 255, (SIDE, SIDE), np.uint8), pose=VECTOR),
        lambda x: {"camera": image(x), "pose": POINT(x)},
    ),
    "FloatDict": (Dict(b=VECTOR, a=VECTOR), lambda x: {"a": POINT(x), "b": POINT(-x)}),
}


class Line(gym.Env):
    """A point on a line; `kind` is one of `KINDS`."""

    action_space = Box(-1, 1, (1,), np.float32)

    def __init__(self, kind="Dict", render_mode=None):
        self.observation_space, self.observe = KINDS[kind]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = self.np_random.uniform(-1, 1), 0
        return self.observe(self.x), {}

    def step(self, action):
        self.x, self.t = float(np.clip(self.x + 0.3 * float(action[0]), -2, 2)), self.t + 1
        return self.observe(self.x), -abs(self.x), False, self.t >= 25, {}


class Steps(Line):
    """The point on a line moves left, stays, or moves right; actions are numbered from −1."""

    action_space = Discrete(3, start=-1)

    def __init__(self, config=None):
        super().__init__((config or {}).get("kind", "Dict"))

    def step(self, action):
        assert action in (-1, 0, 1)
        return super().step(np.float32([action]))


def stacked(kind="Image", render_mode=None):
    """Three frames of the image in one observation."""
    flat = gym.wrappers.ReshapeObservation(Line(kind), (SIDE, SIDE))
    return gym.wrappers.FrameStackObservation(flat, 3)


for name in KINDS:
    gym.register(f"{name}Line-v0", Line, kwargs={"kind": name})
gym.register("StackedLine-v0", stacked)


PUSH = Box(-1, 1, (1,), np.float32)
FORCES = Box(np.array([[0.0, -3.0]]), np.array([[4.0, 1.0]]), dtype=np.float64)
NESTED = Dict(arm=Dict(push=PUSH, rest=Tuple((FORCES, PUSH))), base=FORCES)
ACTIONS = {"Dict": Dict(push=PUSH, forces=FORCES), "Tuple": Tuple((PUSH, FORCES)), "Nested": NESTED}
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
