"""Watch a trained policy: returns, success rates, a window, a video, a dataset. ``--help`` lists the flags."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from interreplay.commandline.flags.evaluate_flags import add_evaluate_flags, check_evaluate
from interreplay.commandline.flags.parser import OneLineParser, underscored
from interreplay.environments.rendering import choose_working_backend
from interreplay.errors import InterreplayError, UsageError


def main(argv: Sequence[str] | None = None) -> int:
    """Plays episodes of the policy in a checkpoint.

    Args:
        argv: The command line without the program's name; by default this process's own.

    Returns:
        The exit code: 0, 2 after an error that the user can mend, 130 after Ctrl-C.
    """
    parser = OneLineParser(description="Let a trained policy act, without exploring.", allow_abbrev=False)
    add_evaluate_flags(parser)
    given = parser.parse_args([underscored(word) for word in (sys.argv[1:] if argv is None else argv)])
    try:
        check_evaluate(given)
        if given.video:
            choose_working_backend()
        from interreplay.rllib.evaluation.report import (
            evaluate,  # imports Ray: only after what can be refused without it
        )

        evaluate(given, print)
    except (UsageError, InterreplayError) as error:
        sys.stderr.write(f"{parser.prog}: error: {' '.join(str(error).split())}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"{parser.prog}: stopped\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
