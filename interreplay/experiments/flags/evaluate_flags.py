"""Flags of the commands that evaluate a trained policy, and their checks before Ray is imported."""

from __future__ import annotations

import argparse
from pathlib import Path

from interreplay.environments.rendering import has_screen
from interreplay.errors import UsageError
from interreplay.experiments.flags.values import seed, whole

EPISODES = 10
VIDEO_EPISODES = 3


def add_evaluate_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a checkpoint and its evaluation."""
    add = parser.add_argument
    text = "a checkpoint of any algorithm, or the folder of a run for its newest checkpoint"
    add("checkpoint", type=Path, metavar="CHECKPOINT", help=text)
    add("--best", action="store_true", help="use the best checkpoint of the run, not its newest")
    add("--run", metavar="ALGORITHM", help="algorithm of the checkpoint; only checked, since the checkpoint records it")
    add(
        "--episodes",
        type=whole(1),
        metavar="N",
        help=f"number of episodes (default: {EPISODES}, or as --steps requires)",
    )
    text = "play whole episodes until this number of environment steps, or until --episodes are played if it is given"
    add("--steps", type=whole(1), metavar="N", help=text)
    add("--seed", type=seed, metavar="N", help="seed of episode i is seed + i (default: the checkpoint's random state)")
    add("--video", "--render_to", type=Path, metavar="FILE", help="write a .gif or .mp4; needs no screen")
    text = f"number of first episodes in the video (default: {VIDEO_EPISODES})"
    add("--video_episodes", type=whole(1), metavar="N", help=text)
    add("--render", action="store_true", help="show the episodes in a window")
    add("--trust_checkpoint", action="store_true", help="load pickles that name code; they can execute anything")
    add("--record_data", metavar="NAME", help="write a Minari dataset with a name such as pendulum/sac-v0")


def check_evaluate(given: argparse.Namespace) -> None:
    """Reject flags that contradict each other or cannot work."""
    if given.render and given.video:
        raise UsageError("--render and --video draw in different ways; give one of them")
    if given.video_episodes and not given.video:
        raise UsageError(f"--video_episodes {given.video_episodes} needs a video; name it with --video FILE.gif")
    if given.render and not has_screen():
        raise UsageError("--render needs a screen, and DISPLAY is not set; --video FILE.gif needs none")
    if not given.checkpoint.exists():
        raise UsageError(f"{given.checkpoint} does not exist; give a checkpoint, or the folder of a run")
    if given.record_data:
        from interreplay.experience.offline_data.minari_episodes import check_new  # imports PyTorch

        check_new(given.record_data)
