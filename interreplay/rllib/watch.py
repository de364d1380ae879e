"""Let a trained policy act: episodes without exploring from a checkpoint, and a video of them."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from interreplay.commandline import UsageError
from interreplay.errors import CheckpointError

METADATA, CONSTRUCTOR = "rllib_checkpoint.json", "class_and_ctor_args.pkl"
FPS = 30
MOST_FRAMES = 3_000
VIDEOS = (".gif", ".mp4")


@dataclass(frozen=True)
class Episode:
    """A finished episode: sum of rewards, number of steps, and success where the environment tells it."""

    ret: float
    length: int
    success: bool | None


@dataclass(frozen=True)
class Watched:
    """What was seen, and where the video is."""

    episodes: list[Episode]
    video: Path | None

    def summary(self) -> str:
        """A line: mean and standard deviation of returns, mean length, success rate."""
        returns = np.array([episode.ret for episode in self.episodes])
        lengths = np.mean([episode.length for episode in self.episodes])
        told = [episode.success for episode in self.episodes if episode.success is not None]
        success = f", success rate {np.mean(told):.2f}" if told else ""
        video = f"; video: {self.video}" if self.video else ""
        count = f"{len(returns)} episode{'s' * (len(returns) > 1)}"
        reached = f"return {returns.mean():.1f} ± {returns.std():.1f}"
        return f"{count}: {reached}, {lengths:.0f} steps on average{success}{video}"


def watch(
    checkpoint: Path, run: str | None, steps: int | None, episodes: int | None, render_to: Path | None = None
) -> Watched:
    """Episodes of the policy in a checkpoint, acting at its mode.

    Args:
        checkpoint: Of any algorithm, ours or RLlib's, or a folder that holds some: the newest of them.
        run: Name of the algorithm that made it; checked when given.
        steps: Begin episodes until so many steps are done.
        episodes: Episodes to play; the smaller one where both are given.
        render_to: A .gif or .mp4 to write the first 3,000 frames to.

    Raises:
        UsageError: When there is no checkpoint, it is of another algorithm, or the video cannot be made.
        CheckpointError: When it cannot be read.
    """
    if render_to is not None:
        check_video(render_to)
    folder = newest(checkpoint)
    config = saved_config(folder)
    made_by = config.algo_class.__name__.removeprefix("Stock")
    if run is not None and run.removesuffix("-stock") != made_by:
        raise UsageError(f"the checkpoint {folder} was made by {made_by}, not {run}; leave --run out")
    frames: list[np.ndarray] = []
    algorithm = prepared(config, frames if render_to else None).build_algo()
    try:
        algorithm.restore_from_path(str(folder))
        found: list[Episode] = []
        while (episodes is None or len(found) < episodes) and (steps is None or sum(e.length for e in found) < steps):
            found += map(_told, algorithm.env_runner.sample(num_episodes=1, explore=False))
    finally:
        algorithm.stop()
    if render_to is not None:
        write_video(render_to, frames)
    return Watched(found, render_to)


def _told(episode: Any) -> Episode:
    last = episode.get_infos(-1) or {}
    success = last.get("is_success", last.get("success"))
    return Episode(float(episode.get_return()), len(episode), None if success is None else bool(success))


def newest(folder: Path) -> Path:
    """The newest checkpoint in a folder, or the folder itself where it is one.

    Raises:
        UsageError: When there is none.
    """
    if (folder / METADATA).exists():
        return folder.absolute()
    found = sorted(folder.glob(f"**/checkpoint_*/{METADATA}"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise UsageError(f"{folder} holds no checkpoint; give the folder of one, or of a run")
    return found[-1].parent.absolute()


def saved_config(folder: Path) -> AlgorithmConfig:
    """The configuration that a checkpoint was made with.

    Raises:
        CheckpointError: When it cannot be read.
    """
    try:
        json.loads((folder / METADATA).read_text())
        with (folder / CONSTRUCTOR).open("rb") as file:
            (state,) = pickle.load(file)["ctor_args_and_kwargs"][0]
        return AlgorithmConfig.from_state(state)
    except (OSError, ValueError, KeyError, EOFError, pickle.UnpicklingError, AttributeError, ImportError) as error:
        raise CheckpointError(f"the checkpoint {folder} cannot be read: {error}") from error


def prepared(config: AlgorithmConfig, frames: list[np.ndarray] | None) -> AlgorithmConfig:
    """`config` for one environment in this process, which leaves pictures in `frames`."""
    config = config.copy(copy_frozen=False)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=1)
    config.evaluation(evaluation_interval=None, evaluation_num_env_runners=0)
    if frames is None:
        return config

    def picture(*, env: Any, **kwargs: Any) -> None:
        if len(frames) < MOST_FRAMES:
            frames.append(env.unwrapped.envs[0].render())

    config.environment(env_config={**config.env_config, "render_mode": "rgb_array"})
    config.callbacks(on_episode_step=picture)
    return config


def check_video(path: Path) -> None:
    """Find out, before anything runs, whether a video can be written.

    Raises:
        UsageError: With what is missing.
    """
    if path.suffix not in VIDEOS:
        raise UsageError(f"--render_to {path} ends in {path.suffix or 'nothing'}; expected {' or '.join(VIDEOS)}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--render_to {path}: there is no folder {path.parent}")
    if path.suffix == ".mp4":
        try:
            import imageio_ffmpeg  # noqa: F401
        except ImportError:
            raise UsageError(
                f"--render_to {path} needs imageio-ffmpeg (pip install imageio-ffmpeg); or write a .gif"
            ) from None


def write_video(path: Path, frames: list[np.ndarray]) -> None:
    """Write `frames`, each ``(height, width, 3)`` uint8."""
    import imageio.v3 as imageio

    if path.suffix == ".gif":
        imageio.imwrite(path, np.stack(frames), duration=1000 / FPS, loop=0)
    else:
        imageio.imwrite(path, np.stack(frames), fps=FPS)
