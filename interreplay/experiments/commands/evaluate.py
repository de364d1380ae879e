"""Evaluate a trained policy: returns, success rates, a window, a video, a dataset. ``--help`` lists the flags."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from interreplay.environments.rendering import choose_backend, has_screen
from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import OneLineParser
from interreplay.learning.setting_fields import SEED, WholeNumber


def make_parser() -> OneLineParser:
    """Return the parser of the command line."""
    parser = OneLineParser(description="Evaluate a trained policy, without exploration.")
    add_flags(parser)
    return parser


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a checkpoint and its evaluation; `watch` has their defaults."""
    add = parser.add_argument
    text = "a checkpoint of any algorithm, or the folder of a run for its newest checkpoint"
    add("checkpoint", type=Path, metavar="CHECKPOINT", help=text)
    add("--best", action="store_true", help="use the best checkpoint of the run, not its newest")
    add("--run", metavar="ALGORITHM", help="algorithm of the checkpoint; only checked, since the checkpoint records it")
    text = "number of episodes (default: 10, or as --steps requires)"
    add("--episodes", type=WholeNumber(1), metavar="N", help=text)
    text = "play whole episodes until this number of environment steps, or until --episodes are played if it is given"
    add("--steps", type=WholeNumber(1), metavar="N", help=text)
    add("--seed", type=SEED, metavar="N", help="seed of episode i is seed + i (default: the checkpoint's random state)")
    add("--video", "--render_to", type=Path, metavar="FILE", help="write a .gif or .mp4; needs no screen")
    text = "number of first episodes in the video (default: 3)"
    add("--video_episodes", type=WholeNumber(1), metavar="N", help=text)
    add("--render", action="store_true", help="show the episodes in a window")
    text = "load a checkpoint that can execute code, such as a checkpoint of RLlib's own algorithms"
    add("--trust_checkpoint", action="store_true", help=text)
    add("--record_data", metavar="NAME", help="write a Minari dataset with a name such as pendulum/sac-v0")


def main(argv: Sequence[str] | None = None) -> int:
    """Play episodes of the policy in a checkpoint; return the exit code."""
    return make_parser().run(act, argv, stopped="stopped")


def act(given: argparse.Namespace) -> int:
    """Check the flags, before the slow import of Ray, and play the episodes; return the exit code."""
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
    if given.video:
        choose_backend(tested=True)
    from interreplay.experiments.evaluation.play import evaluate

    evaluate(given, print)
    return 0
