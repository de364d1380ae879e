"""Flags of the commands that let a trained policy act, and what can be refused before Ray is imported."""

from __future__ import annotations

import argparse
from pathlib import Path

from interreplay.environments.rendering import has_screen
from interreplay.errors import UsageError
from interreplay.experiments.flags.values import seed, whole

EPISODES, VIDEO_EPISODES = 10, 3


def add_evaluate_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a checkpoint and of what to do with it."""
    add = parser.add_argument
    add(
        "checkpoint",
        type=Path,
        metavar="CHECKPOINT",
        help="a checkpoint, or the folder of a run: its newest; of any algorithm",
    )
    add("--best", action="store_true", help="the best checkpoint of the run, not its newest")
    add("--run", metavar="ALGORITHM", help="algorithm that made it; the checkpoint knows, so this is checked only")
    add("--episodes", type=whole(1), metavar="N", help=f"episodes (default: {EPISODES})")
    add("--steps", type=whole(1), metavar="N", help="environment steps; whole episodes until so many are done")
    add(
        "--seed",
        type=seed,
        metavar="N",
        help="episode i begins from seed + i (default: the checkpoint's random state)",
    )
    add("--video", "--render_to", type=Path, metavar="FILE", help="a .gif or .mp4, also where there is no screen")
    add(
        "--video_episodes",
        type=whole(1),
        metavar="N",
        help=f"how many episodes it shows, the first (default: {VIDEO_EPISODES})",
    )
    add("--render", action="store_true", help="show it in a window")
    add("--trust_checkpoint", action="store_true", help="load pickles that name code; they could run anything")
    add("--record_data", metavar="NAME", help="write a Minari dataset, called name-vN, such as pendulum/sac-v0")


def check_evaluate(given: argparse.Namespace) -> None:
    """Refuse what cannot be.

    Raises:
        UsageError: With what could.
    """
    if given.render and given.video:
        raise UsageError("--render and --video draw in different ways; give one of them")
    if given.video_episodes and not given.video:
        raise UsageError(f"--video_episodes {given.video_episodes} needs a video; name it with --video FILE.gif")
    if given.render and not has_screen():
        raise UsageError("--render needs a screen, and DISPLAY is not set; --video FILE.gif needs none")
    if not given.checkpoint.exists():
        raise UsageError(f"{given.checkpoint} does not exist; give a checkpoint, or the folder of a run")
    if given.record_data:
        from interreplay.experience.offline_data.minari_episodes import (
            check_new,  # imports torch: only where it is needed
        )

        check_new(given.record_data)
