"""Pictures of environments, and files of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from interreplay.errors import UsageError
from interreplay.rllib.algorithms.goal_functions import make_one

FPS = 30
MOST_FRAMES = 3_000
"""Of a GIF, which lies in memory until it is written."""
VIDEOS = (".gif", ".mp4")
EXTRA = "pip install 'interreplay[video]'"


class Camera:
    """Takes a picture of the first environment at every step, as RLlib's callback ``on_episode_step``.

    One camera is the same in every copy of a configuration, so that its owner finds what it saw; in a checkpoint it
    is one that is switched off.

    Args:
        sink: Told every picture ``(height, width, 3)`` uint8 and the id of its episode.
    """

    def __init__(self, sink: Callable[[np.ndarray, str], None] | None = None):
        self.sink = sink

    def __call__(self, *, env: Any, episode: Any, **kwargs: Any) -> None:
        if self.sink is not None:
            self.sink(env.unwrapped.envs[0].render(), episode.id_)

    def __deepcopy__(self, memo: Any) -> Camera:
        return self

    def __reduce__(self) -> tuple[type[Camera], tuple[()]]:
        return Camera, ()


class VideoFile:
    """A GIF or MP4 that grows by single pictures.

    Args:
        path: Ends in ``.gif`` or ``.mp4``.

    Raises:
        UsageError: It cannot be written, with what is missing.
    """

    def __init__(self, path: Path):
        check_video(path)
        self.path, self.count = path, 0
        self._frames: list[np.ndarray] = []
        self._writer: Any = None

    def add(self, frame: np.ndarray, _episode: str = "") -> None:
        """One more picture ``(height, width, 3)`` uint8; those after the 3,000th of a GIF are left out."""
        if self.path.suffix == ".gif":
            if self.count == MOST_FRAMES:
                return
            self._frames.append(frame)
        else:
            self._open().append_data(frame)
        self.count += 1

    def _open(self) -> Any:
        if self._writer is None:
            import imageio.v2 as imageio

            self._writer = imageio.get_writer(self.path, fps=FPS, macro_block_size=2)
        return self._writer

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
        if self._frames:
            self.path.write_bytes(gif(self._frames))

    def told(self) -> str:
        """Where it is and how much is in it."""
        full = (
            ", the most that a GIF gets; .mp4 has no such bound" if self._frames and self.count == MOST_FRAMES else ""
        )
        return f"{self.path} ({self.count:,} frames{full})"


def gif(frames: list[np.ndarray], fps: float = FPS) -> bytes:
    """A GIF of pictures ``(height, width, 3)`` uint8."""
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
    if path.suffix == ".mp4":
        try:
            import imageio_ffmpeg  # noqa: F401
        except ImportError:
            raise UsageError(f"video {path} needs imageio-ffmpeg: {EXTRA}; or write a .gif") from None


def check_drawing(config: AlgorithmConfig) -> None:
    """Find out, before anything runs, whether the environment of a configuration can be drawn.

    Raises:
        UsageError: With what is missing.
    """
    env: Any = None
    frame: Any = None
    try:
        env = make_one(config)
        env.reset(seed=0)
        frame = env.render()
    except Exception as error:  # whatever a library of graphics raises
        told = " ".join(str(error).split())[:200] or type(error).__name__
        raise UsageError(
            f"{config.env} cannot be drawn here ({told}); MuJoCo needs EGL or OSMesa (on Debian libegl1 or libosmesa6; "
            f"MUJOCO_GL=egl or osmesa chooses), classic control pygame: {EXTRA}"
        ) from None
    finally:
        if env is not None:
            env.close()
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise UsageError(f"{config.env} gives no pictures: render() returned {type(frame).__name__}, expected an array")
