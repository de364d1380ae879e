"""Environments with typical failures, and one whose observation is its position."""

import os
import sys
import time
from typing import Any

import gymnasium as gym
import numpy as np


class Counting(gym.Env):
    """Environment that observes the number of its episode and its steps; an episode ends after some steps.

    Args:
        config: ``length`` of episodes, None for no end; ``step`` at which `fail` is called, counted over episodes.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, config: Any = None, **kwargs: Any):
        config = {**dict(config or {}), **kwargs}
        self.length, self.failing = config.get("length", 5), config.get("step", 7)
        self.episodes, self.steps, self.total = 0, 0, 0

    def observation(self) -> np.ndarray:
        return np.array([self.episodes, self.steps], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episodes, self.steps = self.episodes + 1, 0
        return self.observation(), {}

    def step(self, action: Any) -> Any:
        self.steps, self.total = self.steps + 1, self.total + 1
        result = self.observation(), 1.0, self.steps == self.length, False, {}
        return self.fail(result) if self.total == self.failing else result

    def fail(self, result: Any) -> Any:
        return result


class Parts(Counting):
    """`Counting` with observations of two named parts."""

    number = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    observation_space = gym.spaces.Dict(episode=number, step=number)

    def observation(self) -> Any:
        episode, step = super().observation()
        return {"episode": np.array([episode]), "step": np.array([step])}


class OneArray(Counting):
    """Returns one array in every step, and changes it in place."""

    seen = np.zeros(2, np.float32)

    def observation(self) -> np.ndarray:
        self.seen[:] = super().observation()
        return self.seen


class TwoArguments(Exception):
    """Ray copies exceptions by calling their class with `args`; this one has too few."""

    def __init__(self, part, state):
        super().__init__(f"the {part} is {state}")


class NotPicklable(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.function = lambda: None


def failing(name: str, fail: Any, base: type = Counting) -> Any:
    """Return a class of environments whose failing step returns `fail(result)`."""
    return type(name, (base,), {"fail": lambda self, result: fail(result)})


def raising(name: str, error: Any) -> Any:
    """Return a class of environments whose failing step raises `error()`."""

    def fail(self: Any, result: Any) -> Any:
        raise error()

    return type(name, (Counting,), {"fail": fail})


Raises = raising("Raises", lambda: RuntimeError("the motor\nburnt out"))
RaisesNotPicklable = raising("RaisesNotPicklable", lambda: NotPicklable("the motor is hot"))
Exits = raising("Exits", lambda: SystemExit("the license is missing"))
FourValues = failing("FourValues", lambda result: (result[0], 1.0, False, {}))
AnotherShape = failing("AnotherShape", lambda result: (np.zeros(3, np.float32), *result[1:]))
RewardArray = failing("RewardArray", lambda result: (result[0], np.ones(1), *result[2:]))
RewardNaN = failing("RewardNaN", lambda result: (result[0], float("nan"), *result[2:]))
ObservationNaN = failing("ObservationNaN", lambda result: (np.full(2, np.nan, np.float32), *result[1:]))
RewardDigits = failing("RewardDigits", lambda result: (result[0], "-1", *result[2:]))
NoReward = failing("NoReward", lambda result: (result[0], None, *result[2:]))


class RaisesThenExits(Counting):
    """Raises an error at `step`, and exits at twice as many steps."""

    def fail(self, result):
        if self.total > 7:
            sys.exit("the license is missing")
        self.failing = 14
        raise TwoArguments("motor", "hot")


class ChecksActions(Counting):
    """Observes NaN after a reset, and rejects NaN as an action, as many environments do."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        if self.total:
            observation[0] = np.nan
        return observation, info

    def step(self, action):
        if np.isnan(action).any():
            raise ValueError("invalid action")
        return super().step(action)


class ExitsWhenClosed(Counting):
    def close(self):
        sys.exit(3)


class RaisesInReset(Counting):
    def reset(self, *, seed=None, options=None):
        if self.total:
            raise OSError("no contact to the robot")
        return super().reset(seed=seed)


class ResetWithoutSeed(Counting):
    def reset(self):
        return super().reset()


def observing(name: str, space: gym.Space, usual: Any, failing: Any) -> Any:
    """Return a class of environments that observe `usual`, and `failing` in their failing step."""
    members = {"observation_space": space, "observation": lambda self: usual}
    members["fail"] = lambda self, result: (failing, *result[1:])
    return type(name, (Counting,), members)


BYTES = gym.spaces.Box(0, 255, (2,), np.uint8)
CHOICE = gym.spaces.Discrete(100)
PARTS = gym.spaces.Dict(mode=gym.spaces.MultiDiscrete([3, 2]), place=gym.spaces.Box(-1, 1, (2,), np.float32))
PLACE = np.zeros(2, np.float32)
CHOSEN = {"mode": np.array([1, 1]), "place": PLACE}
RoundedObservation = observing("RoundedObservation", BYTES, np.zeros(2, np.uint8), np.array([0.5, 1.0]))
AnotherChoice = observing("AnotherChoice", CHOICE, 3, 100)
ChoiceInAnArray = observing("ChoiceInAnArray", CHOICE, 3, np.array([3]))
AnotherChoiceOfPart = observing("AnotherChoiceOfPart", PARTS, CHOSEN, {"mode": np.array([3, 1]), "place": PLACE})


class AnotherChoiceInFirstReset(AnotherChoice):
    def reset(self, *, seed=None, options=None):
        return -1, {}


class AnotherShapeOfPart(Parts):
    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        return observation | {"step": np.float32(0)}, info


class OnlyObservationInReset(Counting):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class Hangs(Counting):
    def fail(self, result):
        time.sleep(3600)


class SleepsWhileAFileExists(Counting):
    """Sleeps in each step while the file `slow` exists. Rewards are actions, so that returns depend on the weights."""

    def __init__(self, config):
        super().__init__(config)
        self.slow = config["slow"]

    def observation(self):
        return np.array([0, self.steps], np.float32)

    def step(self, action):
        if os.path.exists(self.slow):
            time.sleep(1)
        observation, _, *rest = super().step(action)
        return observation, float(action[0]), *rest


class Draws(Counting):
    """Environment that observes unique random numbers of its own generator."""

    def reset(self, *, seed=None, options=None):
        gym.Env.reset(self, seed=seed)
        self.steps = 0
        return self.observation(), {}

    def observation(self):
        return self.np_random.random(2).astype(np.float32)


class SlowSecond(Draws):
    """Steps take .05 seconds in the second runner."""

    def __init__(self, config=None):
        super().__init__(config)
        self.slow = getattr(config, "worker_index", 0) == 2

    def step(self, action):
        time.sleep(0.05 * self.slow)
        return super().step(action)
