"""Let a trained policy act: episodes without exploring from a checkpoint, and a video of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from interreplay.errors import UsageError
from interreplay.experiments.evaluation.load import built, restore, saved_config
from interreplay.experiments.evaluation.minari_dataset import Recorder
from interreplay.experiments.evaluation.video import Camera, VideoFile, check_drawing
from interreplay.experiments.process.progress import shown
from interreplay.rllib.env_runner.runner import BatchEnvRunner
from interreplay.runs.checkpoints.search import find


@dataclass(frozen=True)
class Episode:
    """A finished episode: sum of rewards, number of steps, and success where the environment tells it."""

    ret: float
    length: int
    success: bool | None


@dataclass(frozen=True)
class PlaybackResult:
    """What was seen, and what was written of it: a video, a dataset, "" for neither."""

    episodes: list[Episode]
    video: str = ""
    dataset: str = ""

    def summary(self) -> str:
        """Return a line: mean and standard deviation of returns and lengths, success rate."""
        returns = np.array([episode.ret for episode in self.episodes])
        lengths = np.array([episode.length for episode in self.episodes])
        told = [episode.success for episode in self.episodes if episode.success is not None]
        success = f", success rate {np.mean(told):.2f}" if told else ""
        written = "".join(f"; {kind}: {what}" for kind, what in vars(self).items() if kind != "episodes" and what)
        count = f"{len(returns)} episode{'s' * (len(returns) > 1)}"
        reached = f"return {shown(returns.mean())} ± {shown(returns.std())}"
        return f"{count}: {reached}, length {lengths.mean():.0f} ± {lengths.std():.0f} steps{success}{written}"


@dataclass(frozen=True)
class PlaybackOptions:
    """What to look at.

    Attributes:
        run: Name of the algorithm that made the checkpoint; checked when given.
        steps: Begin episodes until so many steps are done.
        episodes: Episodes to play; the smaller one where both are given.
        seed: Episode i begins from seed + i; by default from the checkpoint's random state.
        video: A .gif or .mp4 to write.
        video_episodes: How many episodes it shows, the first ones.
        window: Show it on the screen.
        dataset: Name of a Minari dataset to write.
        trusted: Whether loading the checkpoint may execute code; RLlib's own algorithms require it.
    """

    run: str | None = None
    steps: int | None = None
    episodes: int | None = None
    seed: int | None = None
    video: Path | None = None
    window: bool = False
    dataset: str | None = None
    trusted: bool = False
    video_episodes: int = 3


def watch(checkpoint: Path, wanted: PlaybackOptions, on_episode: Callable[[Episode], object] = id) -> PlaybackResult:
    """Return episodes of the policy in a checkpoint, acting at its mode.

    Args:
        checkpoint: Of any algorithm, ours or RLlib's, or a folder that holds some: the newest of them.
        wanted: What to look at.
        on_episode: Told each episode when it is over.

    Raises:
        UsageError: When there is no checkpoint, it is of another algorithm, or something wanted cannot be made.
        CheckpointError: When it cannot be read.
    """
    video = VideoFile(wanted.video, wanted.video_episodes) if wanted.video else None
    recorder = Recorder(wanted.dataset) if wanted.dataset else None
    folder = find(checkpoint)[0]
    config = saved_config(folder, wanted.trusted)
    made_by = config.algo_class.__name__.removeprefix("Stock")
    if wanted.run is not None and wanted.run.removesuffix("-stock") != made_by:
        raise UsageError(f"the checkpoint {folder} was made by {made_by}, not {wanted.run}; leave --run out")
    algorithm = built(prepared(config, video, wanted.window))
    found: list[Episode] = []
    try:
        restore(algorithm, folder)
        for episode in _play(algorithm.env_runner, wanted):
            found.append(_told(episode))
            on_episode(found[-1])
            if video is not None:
                video.end_episode()
            if recorder is not None:
                recorder.add(episode, algorithm.env_runner)
    finally:
        algorithm.stop()
        if video is not None:
            video.close()
    written = recorder.write(made_by) if recorder is not None else ""
    return PlaybackResult(found, video.told() if video is not None else "", written)


def _play(runner: Any, wanted: PlaybackOptions) -> Iterator[Any]:
    """Yield finished episodes, as many as are wanted."""
    count = steps = 0
    while (wanted.episodes is None or count < wanted.episodes) and (wanted.steps is None or steps < wanted.steps):
        _seed(runner, None if wanted.seed is None else wanted.seed + count)
        (episode,) = runner.sample(num_episodes=1, explore=False)
        count, steps = count + 1, steps + len(episode)
        yield episode


def _seed(runner: Any, seed: int | None) -> None:
    """Let the next episode begin from a seed, or from the random state that there is."""
    if not isinstance(runner, BatchEnvRunner):
        # RLlib's runners take the seed of their configuration for every call; None leaves the state alone.
        runner._seed, runner._needs_initial_reset = seed, True
    elif seed is not None:
        runner.seed_next_reset(seed)


def _told(episode: Any) -> Episode:
    last = episode.get_infos(-1) or {}
    success = last.get("is_success", last.get("success"))
    return Episode(float(episode.get_return()), len(episode), None if success is None else bool(success))


def prepared(config: AlgorithmConfig, video: VideoFile | None = None, window: bool = False) -> AlgorithmConfig:
    """Return `config` for one environment in this process, which is filmed or shown.

    Raises:
        UsageError: It cannot be drawn.
    """
    config = config.copy(copy_frozen=False)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=1)
    config.evaluation(evaluation_interval=None, evaluation_num_env_runners=0)
    config.learners(num_learners=0)
    config.callbacks_on_episode_step = None
    if window:
        config.environment(env_config={**config.env_config, "render_mode": "human"})
    if video is not None:
        config.environment(env_config={**config.env_config, "render_mode": "rgb_array"})
        video.fps = check_drawing(config)
        config.callbacks(on_episode_step=Camera(video.add, video.wanted))
    return config
