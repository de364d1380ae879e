"""What `interreplay evaluate`, `enjoy.py` and `rllib evaluate` do: episodes of a trained policy, one by one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import count

from interreplay.experiments.evaluation.play import Episode, PlaybackOptions, watch
from interreplay.experiments.evaluation.video import check_video
from interreplay.experiments.flags.evaluate_flags import EPISODES, VIDEO_EPISODES
from interreplay.experiments.process.progress import shown
from interreplay.rllib.ray_session import start_ray
from interreplay.runs.checkpoints.best import best_of, read
from interreplay.runs.checkpoints.search import find


def evaluate(given: argparse.Namespace, say: Callable[[str], object]) -> None:
    """Play episodes, a line each, and a last line of means and of what was written.

    Args:
        given: Flags as `add_evaluate_flags` has them.
        say: Told the lines.
    """
    if given.video:
        check_video(given.video)
    found = [best_of(given.checkpoint)] if given.best else find(given.checkpoint)
    if given.best:
        say(f"{found[0]}, {read(found[0])}")
    elif found != [given.checkpoint.absolute()]:
        say(f"{found[0]}, the newest of {len(found)} checkpoint{'s' * (len(found) > 1)}")
    start_ray(1)
    numbers = count(1)

    def report(episode: Episode) -> None:
        success = "" if episode.success is None else f", {'success' if episode.success else 'no success'}"
        say(f"episode {next(numbers)}: return {shown(episode.ret)} in {episode.length} steps{success}")

    episodes = given.episodes or (None if given.steps else EPISODES)
    wanted = PlaybackOptions(
        given.run,
        given.steps,
        episodes,
        given.seed,
        given.video,
        given.render,
        given.record_data,
        given.trust_checkpoint,
        given.video_episodes or VIDEO_EPISODES,
    )
    say(watch(found[0], wanted, report).summary())
