"""Implementation of `interreplay evaluate`, `enjoy.py` and `rllib evaluate`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import count

from interreplay.experiments.evaluation.play import Episode, PlaybackOptions, watch
from interreplay.experiments.flags.evaluate_flags import EPISODES, VIDEO_EPISODES
from interreplay.experiments.process.machine import counted
from interreplay.experiments.process.progress import shown
from interreplay.rllib.ray_session import quiet
from interreplay.runs.checkpoints import best_of, find, read_best


def evaluate(given: argparse.Namespace, notify: Callable[[str], object]) -> None:
    """Play episodes and report each of them, then their means and the files written."""
    if given.best:
        checkpoint = best_of(given.checkpoint)
        notify(f"{checkpoint}, {read_best(checkpoint)}")
    else:
        found = find(given.checkpoint)
        checkpoint = found[0]
        if found != [given.checkpoint.absolute()]:
            notify(f"{checkpoint}, the newest of {counted(len(found), 'checkpoint')}")
    quiet()
    numbers = count(1)

    def report(episode: Episode) -> None:
        success = {None: "", True: ", success", False: ", no success"}[episode.success]
        notify(f"episode {next(numbers)}: return {shown(episode.ret)} in {episode.length} steps{success}")

    episodes = given.episodes
    if episodes is None and given.steps is None:
        episodes = EPISODES
    options = PlaybackOptions(
        run=given.run,
        steps=given.steps,
        episodes=episodes,
        seed=given.seed,
        video=given.video,
        window=given.render,
        dataset=given.record_data,
        trusted=given.trust_checkpoint,
        video_episodes=given.video_episodes or VIDEO_EPISODES,
    )
    notify(watch(checkpoint, options, report).summary())
