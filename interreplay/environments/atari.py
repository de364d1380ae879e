"""Atari games on the Arcade Learning Environment itself (extra ``atari``), so that a game can be saved and resumed.

Bellemare et al. 2013 (arXiv:1207.4708); the protocol follows Mnih et al. 2015 (doi:10.1038/nature14236), with the
sticky actions of Machado et al. 2018 (arXiv:1709.06009).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from interreplay.errors import check_number

KEY = "learner_view"
"""Key in infos for what to store if an environment ``has_learner_view``: the learner's reward and termination, and
those of the game that they replace, ``(float, bool, float, bool)``."""
RETIRED = "NoFrameskip"
"""Part of retired ids without sticky actions, such as ``PongNoFrameskip-v4``."""
SIZE = 84
FIRE = 1


def learner_view(info: dict[str, Any], reward: float, terminated: bool) -> tuple[float, bool]:
    """Return the reward and termination to store after a step of an environment that ``has_learner_view``.

    `reward` and `terminated` come from the environment with its wrappers. Values that a wrapper has changed are stored
    as the wrapper returned them.
    """
    if KEY not in info:  # the first step of an episode has the outcome of the game
        return reward, terminated
    stored_reward, stored_end, game_reward, game_end = info[KEY]
    return (
        stored_reward if reward == game_reward else reward,
        stored_end if terminated == game_end else terminated,
    )


def sign(reward: float) -> float:
    """Return −1, 0 or 1 (Mnih et al. 2015)."""
    return float(np.sign(reward))


def clamp(reward: float) -> float:
    """Return the reward within [−1, 1]."""
    return min(max(float(reward), -1.0), 1.0)


def soft_asymmetric(reward: float) -> float:
    """Return .3·min(tanh r, 0) + 5·max(tanh r, 0), as in IMPALA (Espeholt et al. 2018, arXiv:1802.01561)."""
    squeezed = float(np.tanh(reward))
    return 0.3 * min(squeezed, 0.0) + 5.0 * max(squeezed, 0.0)


REWARD_CLIPPINGS: dict[str, Callable[[float], float]] = {
    "sign": sign,
    "clamp": clamp,
    "soft_asymmetric": soft_asymmetric,
    "none": float,
}


class Atari(gym.Env):
    """A game with stacks of gray frames as observations, ``(frame_stack, 84, 84)``, uint8.

    Rewards, terminations and lengths refer to whole games. Infos contain what a learner receives (`learner_view`):
    clipped rewards, and a lost life as a termination, after which the game continues. Sticky actions are drawn here
    frame by frame, because the state of the emulator does not contain the last action.

    Args:
        game: Name of the cartridge, such as ``space_invaders``.
        sticky: Probability that a frame repeats the action of the previous frame.
        full_action_space: Whether to offer all 18 actions, including those without effect in this game.
        reward_clipping: Clipping of the rewards to learn from: ``sign``, ``clamp``, ``soft_asymmetric`` or ``none``;
            None means ``none``.
        lives_terminate: Whether a lost life ends the episode for the learner.
        frameskip: Number of frames per action; the observation is the pixelwise maximum of the last two.
        frame_stack: Number of frames per observation.
        noops: Maximum number of initial frames without an action, drawn uniformly from 1; 0 disables them.
        fire_reset: Whether a game starts with FIRE if it has this action.
        max_frames: Number of frames after which a game is truncated.
        render_mode: ``rgb_array`` or None.

    Raises:
        ValueError: An argument is invalid.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 - gymnasium's way
    has_learner_view = True
    ends_by_time = True

    def __init__(
        self,
        game: str,
        sticky: float = 0.25,
        full_action_space: bool = False,
        reward_clipping: str | None = "sign",
        lives_terminate: bool = True,
        frameskip: int = 4,
        frame_stack: int = 4,
        noops: int = 30,
        fire_reset: bool = True,
        max_frames: int = 108_000,
        render_mode: str | None = None,
    ):
        reward_clipping = reward_clipping or "none"
        if reward_clipping not in REWARD_CLIPPINGS:
            raise ValueError(f"reward_clipping is {reward_clipping!r}; expected {', '.join(REWARD_CLIPPINGS)}")
        check_number("sticky", sticky, 0, 1, below_high=True)
        check_number("noops", noops, 0, whole=True)
        for name, count in (("frameskip", frameskip), ("frame_stack", frame_stack), ("max_frames", max_frames)):
            check_number(name, count, 1, whole=True)
        switches = {"full_action_space": full_action_space, "lives_terminate": lives_terminate}
        for name, switch in (switches | {"fire_reset": fire_reset}).items():
            if not isinstance(switch, bool):
                raise ValueError(f"{name} is {switch!r}; expected true or false")
        self.game = game
        self.sticky = sticky
        self.lives_terminate = lives_terminate
        self.frameskip = frameskip
        self.noops = noops
        self.max_frames = max_frames
        self.render_mode = render_mode
        self._clip = REWARD_CLIPPINGS[reward_clipping]
        self._cv2 = importlib.import_module("cv2")
        self._package = importlib.import_module("ale_py")
        self._rom = importlib.import_module("ale_py.roms").get_rom_path(game)
        self.emulator = self._load(0)
        minimal = [action.value for action in self.emulator.getMinimalActionSet()]
        self.actions = list(range(len(self.emulator.getLegalActionSet()))) if full_action_space else minimal
        self._fires = fire_reset and FIRE in minimal
        self.action_space = gym.spaces.Discrete(len(self.actions))
        self.observation_space = gym.spaces.Box(0, 255, (frame_stack, SIZE, SIZE), np.uint8)
        # The last two screens, the newest last, and the action of the last frame.
        self._screens = [np.zeros(self.emulator.getScreenDims(), np.uint8) for _ in range(2)]
        self._stack = np.zeros(self.observation_space.shape, np.uint8)
        self._last = 0
        self._lives = 0

    def _load(self, seed: int) -> Any:
        package = self._package
        package.ALEInterface.setLoggerMode(package.LoggerMode.Error)
        emulator = package.ALEInterface()
        emulator.setInt("random_seed", seed)
        emulator.setFloat("repeat_action_probability", 0.0)
        emulator.loadROM(self._rom)
        return emulator

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self.emulator = self._load(int(self.np_random.integers(2**31)))
        self._begin()
        count = 0
        if self.noops:
            count = int(self.np_random.integers(1, self.noops + 1))
        for action in [0] * count + [FIRE] * self._fires:
            self.emulator.act(action)
            if self.emulator.game_over():
                self._begin()
        self._lives = self.emulator.lives()
        for screen in self._screens:
            self.emulator.getScreenGrayscale(screen)
        self._stack = np.repeat(self._frame()[None], len(self._stack), axis=0)
        return self._stack, {"lives": self._lives}

    def _begin(self) -> None:
        self.emulator.reset_game()
        self._last = 0

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        reward, over = self._act(self.actions[int(action)])
        stack = np.empty_like(self._stack)  # the previous stack is still in use as an observation
        stack[:-1] = self._stack[1:]
        stack[-1] = self._frame()
        before = self._lives
        self._stack = stack
        self._lives = self.emulator.lives()
        cut = not over and self.emulator.getEpisodeFrameNumber() >= self.max_frames
        ends = over or (self.lives_terminate and self._lives < before)
        return stack, reward, over, cut, {"lives": self._lives, KEY: (self._clip(reward), ends, reward, over)}

    def _act(self, action: int) -> tuple[float, bool]:
        """Play the frames of one step; return the score and whether the game is over."""
        emulator = self.emulator
        reward = 0
        over = False
        repeats = (self.np_random.random(self.frameskip) < self.sticky).tolist() if self.sticky else ()
        for frame in range(self.frameskip):
            if not (self.sticky and repeats[frame]):
                self._last = action
            reward += emulator.act(self._last)
            over = bool(emulator.game_over())
            if over or frame >= self.frameskip - 2:
                self._screens.reverse()
                emulator.getScreenGrayscale(self._screens[1])
            if over:
                break
        return float(reward), over

    def _frame(self) -> np.ndarray:
        brightest = np.maximum(*self._screens)
        return self._cv2.resize(brightest, (SIZE, SIZE), interpolation=self._cv2.INTER_AREA)

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Return the screen in color ``(210, 160, 3)``, or None without a render mode."""
        if self.render_mode != "rgb_array":
            return None
        return self.emulator.getScreenRGB()

    def save_state(self) -> dict[str, Any]:
        """Return the state of the emulator with its random generator; the rest is in plain attributes."""
        return {"emulator": np.frombuffer(self.emulator.cloneSystemState().serialize(), np.uint8)}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `save_state` returned."""
        self.emulator.restoreSystemState(self._package.ALEState(np.asarray(state["emulator"]).tobytes()))


def register() -> None:
    """Replace the games that ale-py registers on import with `Atari`."""
    importlib.import_module("ale_py")
    for spec in list(gym.registry.values()):
        if spec.entry_point == "ale_py.env:AtariEnv" and (spec.id.startswith("ALE/") or RETIRED in spec.id):
            arguments = {"game": spec.kwargs["game"], "sticky": spec.kwargs["repeat_action_probability"]}
            gym.registry[spec.id] = EnvSpec(spec.id, entry_point=f"{__name__}:{Atari.__name__}", kwargs=arguments)
