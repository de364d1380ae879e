"""Evaluate a trained policy: returns, success rates, a window, a video, a dataset. ``--help`` lists the flags."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from interreplay.environments.rendering import choose_backend
from interreplay.experiments.flags.evaluate_flags import add_evaluate_flags, check_evaluate
from interreplay.experiments.flags.reading import OneLineParser


def make_parser() -> OneLineParser:
    """Return the parser of the command line."""
    parser = OneLineParser(description="Evaluate a trained policy, without exploration.")
    add_evaluate_flags(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Play episodes of the policy in a checkpoint; return the exit code."""
    return make_parser().run(act, argv, stopped="stopped")


def act(given: argparse.Namespace) -> int:
    """Play the episodes; return the exit code."""
    check_evaluate(given)
    if given.video:
        choose_backend(tested=True)
    from interreplay.experiments.evaluation.play import evaluate  # imports Ray, so after the checks

    evaluate(given, print)
    return 0
