"""Write the policy of a checkpoint as a file for other programs. ``--help`` lists the flags."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from interreplay.experiments.flags.reading import OneLineParser
from interreplay.learning.setting_fields import WholeNumber

OBSERVATIONS = 1000


def make_parser() -> OneLineParser:
    """Return the parser of the command line."""
    parser = OneLineParser(
        description="Write the policy of a checkpoint as a file that maps observations of the environment to the "
        "policy's best actions, without exploration.",
    )
    add = parser.add_argument
    text = "a checkpoint of this package, or the folder of a run for its newest checkpoint"
    add("checkpoint", type=Path, metavar="CHECKPOINT", help=text)
    add("--to", type=Path, required=True, metavar="FILE", help="policy.onnx, or policy.pt2 for PyTorch")
    add("--best", action="store_true", help="use the best checkpoint of a run, not its newest")
    text = f"number of observations on which file and policy are compared (default: {OBSERVATIONS})"
    add("--observations", type=WholeNumber(1), default=OBSERVATIONS, metavar="N", help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Write the file; return the exit code, 1 when the file acts differently from the policy."""
    return make_parser().run(act, argv, stopped="stopped")


def act(given: argparse.Namespace) -> int:
    """Export and compare; return the exit code."""
    from interreplay.acting.export import check_target, export, signature  # imports PyTorch, which --help does not need
    from interreplay.acting.stored_policy import load_policy

    check_target(given.to)
    policy = load_policy(given.checkpoint, best=given.best)
    print(f"{policy.about['algorithm']} on {policy.about['env']}, {policy.about['checkpoint']}")
    found = export(policy, given.to, given.observations)
    print(f"{given.to}: {signature(policy)}")
    print(found.summary())
    return 0
