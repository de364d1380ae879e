"""What `interreplay evaluate`, `enjoy.py` and `rllib evaluate` do: episodes of a trained policy, told one by one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import count

from interreplay.commandline.evaluate_flags import EPISODES
from interreplay.rllib import job
from interreplay.rllib.watch import Episode, Watching, watch


def start_ray(num_cpus: int | None) -> None:
    """A Ray of this process, quiet, or the one that is running already."""
    job.quiet()
    job.start_local(num_cpus)


def evaluate(given: argparse.Namespace, say: Callable[[str], object]) -> None:
    """Play episodes, a line each, and a last line of means and of what was written.

    Args:
        given: Flags as `add_evaluate_flags` has them.
        say: Told the lines.
    """
    start_ray(1)
    numbers = count(1)

    def told(episode: Episode) -> None:
        success = "" if episode.success is None else f", {'success' if episode.success else 'no success'}"
        say(f"episode {next(numbers)}: return {episode.ret:.1f} in {episode.length} steps{success}")

    episodes = given.episodes or (None if given.steps else EPISODES)
    wanted = Watching(
        given.run,
        given.steps,
        episodes,
        given.seed,
        given.video,
        given.render,
        given.record_data,
        given.trust_checkpoint,
    )
    say(watch(given.checkpoint, wanted, told).summary())
