"""Pictures of environments, and files of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from interreplay.environments.wrapped import own_name
from interreplay.errors import UsageError, exits_as_errors
from interreplay.experiments.evaluation.gif_file import MOST_FPS, GifFile
from interreplay.rllib.env_runner.env_creation import make_one
from interreplay.runs.run_folder import ensure_writable

FPS = 30
"""Of environments that do not say how fast they are."""
MOST_FRAMES = 3_000
"""Of a GIF, of which each takes some 20 kB."""
MOST_PIXELS = {".gif": 320, ".mp4": 1_080}
"""Along a side; larger pictures are scaled down."""
VIDEOS = tuple(MOST_PIXELS)
EXTRA = "pip install 'interreplay[video]'"


class Camera:
    """Takes a picture of the first environment at every step, as RLlib's callback ``on_episode_step``.

    One camera is the same in every copy of a configuration, so that its owner finds what it saw; in a checkpoint it
    is one that is switched off.

    Args:
        sink: Receives every picture ``(height, width, 3)`` uint8 and the id of its episode.
        wanted: Whether the next picture is to be taken; drawing costs more than a step.
    """

    def __init__(
        self, sink: Callable[[np.ndarray, str], None] | None = None, wanted: Callable[[], bool] = lambda: True
    ):
        self.sink, self.wanted = sink, wanted

    def __call__(self, *, env: Any, episode: Any, **kwargs: Any) -> None:
        if self.sink is not None and self.wanted():
            self.sink(env.unwrapped.envs[0].render(), episode.id_)

    def __deepcopy__(self, memo: Any) -> Camera:
        return self

    def __reduce__(self) -> tuple[type[Camera], tuple[()]]:
        return Camera, ()


class VideoFile:
    """A GIF or MP4 that grows by single pictures, as fast as the environment is, of the first episodes only.

    Args:
        path: Ends in ``.gif`` or ``.mp4``.
        episodes: How many episodes it shows.

    Attributes:
        fps: The environment's steps per second, set before the first picture.

    Raises:
        UsageError: It cannot be written, with what is missing.
    """

    def __init__(self, path: Path, episodes: int = 3):
        check_video(path)
        self.path, self.count, self.fps = path, 0, float(FPS)
        self._left = episodes
        self._steps = self._ended = 0
        self._writer: GifFile | _Mp4File | None = None

    def wanted(self) -> bool:
        """Return whether the next picture will be used; those after the 3,000th of a GIF are not."""
        if self._left == 0 or self._is_full():
            return False
        self._steps += 1
        return (self._steps - 1) % self._stride == 0

    def add(self, frame: np.ndarray, _episode: str = "") -> None:
        """Append a picture ``(height, width, 3)`` uint8.

        Raises:
            UsageError: The file cannot be written.
        """
        try:
            if self._writer is None:
                kind = GifFile if self.path.suffix == ".gif" else _Mp4File
                self._writer = kind(self.path, self.fps / self._stride)
            self._writer.add(scaled(frame, MOST_PIXELS[self.path.suffix]))
        except OSError as error:
            raise UsageError(f"video {self.path} cannot be written: {error.strerror or error}") from error
        self.count += 1

    def end_episode(self) -> None:
        """Note that an episode is over."""
        if self._left:
            self._left, self._ended, self._steps = self._left - 1, self._ended + 1, 0

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()

    def told(self) -> str:
        """Return where it is and how much is in it."""
        full = ", the most that a GIF gets; .mp4 has no such bound" if self._is_full() else ""
        episodes = f"{self._ended} episode{'s' * (self._ended != 1)}"
        return f"{self.path} ({self.count:,} frames of {episodes}{full})"

    def _is_full(self) -> bool:
        return self.path.suffix == ".gif" and self.count >= MOST_FRAMES

    @property
    def _stride(self) -> int:
        """Every how many-th step is shown: a GIF cannot show more than 50 a second."""
        return math.ceil(self.fps / MOST_FPS) if self.path.suffix == ".gif" else 1


class _Mp4File:
    """An MP4 that grows by single pictures, through ffmpeg."""

    def __init__(self, path: Path, fps: float):
        import imageio.v2 as imageio

        self._writer: Any = imageio.get_writer(path, fps=fps, macro_block_size=2)

    def add(self, frame: np.ndarray) -> None:
        self._writer.append_data(frame)

    def close(self) -> None:
        self._writer.close()


def scaled(frame: np.ndarray, most: int) -> np.ndarray:
    """Scale a picture ``(height, width, 3)`` uint8 whose longer side has more than `most` pixels to that."""
    longer = max(frame.shape[:2])
    if longer <= most:
        return np.ascontiguousarray(frame)
    height, width = (max(1, round(side * most / longer)) for side in frame.shape[:2])
    return np.asarray(Image.fromarray(frame).resize((width, height), Image.Resampling.BOX))


def gif(frames: list[np.ndarray], fps: float = FPS) -> bytes:
    """Return a GIF of pictures ``(height, width, 3)`` uint8."""
    import imageio.v3 as imageio

    return imageio.imwrite("<bytes>", np.stack(frames), extension=".gif", duration=1000 / fps, loop=0)


def check_video(path: Path) -> None:
    """Find out, before anything runs, whether a video can be written.

    Raises:
        UsageError: With what is missing.
    """
    if path.suffix not in VIDEOS:
        raise UsageError(f"video {path} ends in {path.suffix or 'nothing'}; expected {' or '.join(VIDEOS)}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"video {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise UsageError(f"video {path} is a folder; give a file")
    ensure_writable(path.absolute().parent, "video in")
    if path.suffix == ".mp4":
        try:
            import imageio_ffmpeg  # noqa: F401
        except ImportError:
            raise UsageError(f"video {path} needs imageio-ffmpeg: {EXTRA}; or write a .gif") from None


def check_drawing(config: AlgorithmConfig) -> float:
    """Find out, before anything runs, whether the environment of a configuration can be drawn, and how fast it is.

    Returns:
        Its steps per second.

    Raises:
        UsageError: With what is missing.
    """
    env: Any = None
    frame: Any = None
    name = own_name(config.env, config.env_config)
    try:
        with exits_as_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an error states what a warning of Gymnasium would
            env = make_one(config)
            env.reset(seed=0)
            frame = env.render()
    except Exception as error:  # whatever a library of graphics raises
        told = " ".join(str(error).split())[:200] or type(error).__name__
        raise UsageError(
            f"{name} cannot be drawn here ({told}); MuJoCo needs EGL or OSMesa (on Debian libegl1 or libosmesa6; "
            f"MUJOCO_GL=egl or osmesa chooses), classic control pygame: {EXTRA}"
        ) from None
    finally:
        if env is not None:
            env.close()
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise UsageError(f"{name} gives no pictures: render() returned {type(frame).__name__}, expected an array")
    return float(env.metadata.get("render_fps") or FPS)
