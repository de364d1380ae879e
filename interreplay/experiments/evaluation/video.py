"""Videos of environments: files of whole episodes, and short ones of evaluations for TensorBoard."""

from __future__ import annotations

import contextlib
import gc
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import imageio.v3 as imageio_v3
import numpy as np
from PIL import Image
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from interreplay.environments.registration import inner_env_name
from interreplay.errors import UsageError, describe_error, exits_as_errors
from interreplay.experiments.process.machine import format_count
from interreplay.rllib.env_runner.env_creation import make_one
from interreplay.runs.run_folder import ensure_writable

FPS = 30
"""Frames per second for environments without ``render_fps``."""
MAX_SIDE = {".gif": 320, ".mp4": 1_080}
"""Pixels along the longer side of a video file, by its suffix; larger frames are scaled down."""
MAX_GIF_FRAMES = 1_000
"""Frames of a GIF. They are in memory until the file is closed, 300 kB each."""
MAX_GIF_FPS = 50
"""Browsers slow down GIFs with a higher rate."""
MAX_EVALUATION_FRAMES = 200
MAX_EVALUATION_SIDE = 240
EXTRA = "pip install 'interreplay[video]'"


@dataclass(eq=False)
class Camera:
    """RLlib callback ``on_episode_step`` that renders the first environment at every step.

    Copies of a configuration share one camera, so that its owner receives the frames. A camera loaded from a
    checkpoint is switched off.

    Args:
        sink: Receives each frame ``(height, width, 3)`` uint8 and the id of its episode.
        enabled: Returns whether to render the next frame. Rendering takes longer than an environment step.
    """

    sink: Callable[[np.ndarray, str], None] | None = None
    enabled: Callable[[], bool] = lambda: True

    def __call__(self, *, env: Any, episode: Any, **kwargs: Any) -> None:
        if self.sink is not None and self.enabled():
            self.sink(env.unwrapped.envs[0].render(), episode.id_)

    def __deepcopy__(self, memo: Any) -> Camera:
        return self

    def __reduce__(self) -> tuple[type[Camera], tuple[()]]:
        return Camera, ()


class VideoFile:
    """GIF or MP4 of the first episodes, at the speed of the environment: set `fps` before the first frame.

    The delay between two frames of a GIF is a multiple of 10 ms. An earlier file is replaced once the video is ready.
    """

    def __init__(self, path: Path, episodes: int = 3):
        check_video(path)
        self.path = path
        self._partial = path.with_name(f".{path.stem}.partial{path.suffix}")
        self.fps = float(FPS)
        self.count = 0
        self._most = MAX_GIF_FRAMES if path.suffix == ".gif" else math.inf
        self._episodes = episodes
        self._ended = 0
        self._steps = 0
        self._frames: list[np.ndarray] = []
        self._writer: Any = None

    @property
    def _stride(self) -> int:
        """Number of environment steps per frame."""
        return 1 if self._most == math.inf else math.ceil(self.fps / MAX_GIF_FPS)

    def next_step_is_shown(self) -> bool:
        """Count an environment step and return whether the video shows it."""
        if self._ended == self._episodes or self.count >= self._most:
            return False
        self._steps += 1
        return (self._steps - 1) % self._stride == 0

    def add(self, frame: np.ndarray, _episode: str = "") -> None:
        """Append a frame ``(height, width, 3)`` uint8."""
        shown = scale_down(frame, MAX_SIDE[self.path.suffix])
        if self.path.suffix == ".gif":
            self._frames.append(shown)
        else:
            try:
                if self._writer is None:
                    self._writer = imageio.get_writer(self._partial, fps=self.fps, macro_block_size=2)
                self._writer.append_data(shown)
            except OSError as error:
                raise self._unwritable(error) from error
        self.count += 1

    def end_episode(self) -> None:
        """Mark the end of an episode, which counts if the video shows steps of it."""
        if self._steps:
            self._ended += 1
        self._steps = 0

    def close(self, interrupted: bool = False) -> None:
        """Write the rest of the file, if there are frames; an interrupted video is dropped if episodes are missing."""
        try:
            if self._writer is not None:
                self._writer.close()
            if interrupted and self._ended < self._episodes and self.count < self._most:
                self._partial.unlink(missing_ok=True)
                return
            if self._frames:
                self._partial.write_bytes(gif(self._frames, self.fps / self._stride))
            if self.count:
                self._partial.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._partial.unlink(missing_ok=True)
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> UsageError:
        return UsageError(f"video {self.path} cannot be written: {error.strerror or error}")

    def summary(self) -> str:
        """Return the path with the numbers of frames and episodes."""
        full = ", the maximum of a GIF; .mp4 has no maximum" if self.count >= self._most else ""
        return f"{self.path} ({self.count:,} frames of {format_count(self._ended, 'episode')}{full})"


class EvaluationVideo:
    """Records the first episode of every evaluation.

    The configuration is changed: evaluation runs in this process and renders.
    """

    def __init__(self, config: Any):
        self._frames: list[np.ndarray] = []
        self._seen = 0
        self._stride = 1
        self._episode = ""
        rendering = {"env_config": {**config.env_config, "render_mode": "rgb_array"}}
        check_rendering(config.copy(copy_frozen=False).environment(**rendering))
        camera = {"num_envs_per_env_runner": 1, "callbacks_on_episode_step": Camera(self._add)}
        config.evaluation(
            evaluation_num_env_runners=0,
            evaluation_config={**(config.evaluation_config or {}), **rendering, **camera},
        )

    def _add(self, frame: np.ndarray, episode: str) -> None:
        self._episode = self._episode or episode
        if episode != self._episode:
            return
        if self._seen % self._stride == 0:
            self._frames.append(scale_down(frame, MAX_EVALUATION_SIDE))
            if len(self._frames) > MAX_EVALUATION_FRAMES:
                del self._frames[1::2]
                self._stride *= 2
        self._seen += 1

    def take(self) -> list[np.ndarray]:
        """Return and forget the frames since the last call: at most 200 frames of at most 240 pixels a side."""
        frames = self._frames
        self._frames = []
        self._seen = 0
        self._stride = 1
        self._episode = ""
        return frames


def scale_down(frame: np.ndarray, side: int) -> np.ndarray:
    """Scale a frame ``(height, width, 3)`` uint8 down so that its longer side has at most `side` pixels."""
    image = Image.fromarray(frame)
    image.thumbnail((side, side), Image.Resampling.BOX)
    return np.asarray(image)


def gif(frames: list[np.ndarray], fps: float = FPS) -> bytes:
    """Return frames ``(height, width, 3)`` uint8 as a GIF."""
    return imageio_v3.imwrite("<bytes>", np.stack(frames), extension=".gif", duration=1000 / fps, loop=0)


def check_video(path: Path) -> None:
    """Check that a video can be written, before anything runs."""
    if path.suffix not in MAX_SIDE:
        raise UsageError(f"video {path} ends in {path.suffix or 'nothing'}; expected {' or '.join(MAX_SIDE)}")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"video {path} cannot be written; give a file in a folder that exists")
    ensure_writable(path.absolute().parent, "video in")
    if path.suffix == ".mp4" and find_spec("imageio_ffmpeg") is None:
        raise UsageError(f"video {path} needs imageio-ffmpeg: {EXTRA}; or write a .gif")


def check_rendering(config: AlgorithmConfig) -> float:
    """Check that an environment can be rendered, before anything runs, and return its env steps per second.

    Closed environments are removed from memory. Otherwise, MuJoCo would delete their buffers at a later garbage
    collection, and the buffers of the current environment with the same numbers, so that frames would be blank.
    """
    env: Any = None
    name = inner_env_name(config.env, config.env_config)
    try:
        with exits_as_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error below includes what Gymnasium warns about
            env = make_one(config)
            env.reset(seed=0)
            frame = env.render()
            fps = float(env.metadata.get("render_fps") or FPS)
    except Exception as error:  # graphics libraries raise errors of any class
        raise UsageError(
            f"{name} cannot be rendered here ({describe_error(error)[:200]}); MuJoCo needs EGL or OSMesa (on Debian "
            f"libegl1 or libosmesa6; MUJOCO_GL=egl or osmesa selects one), classic control needs pygame: {EXTRA}"
        ) from None
    finally:
        if env is not None:
            env.close()
        env = None
        gc.collect()
    if not isinstance(frame, np.ndarray):
        raise UsageError(f"{name} cannot be filmed: render() returned {type(frame).__name__}, expected an image array")
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] not in (3, 4):
        raise UsageError(
            f"{name} cannot be filmed: render() returned an array {frame.shape} of {frame.dtype}, "
            "expected (height, width, 3 or 4) of uint8"
        )
    return fps
