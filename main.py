"""Train, go on or test in an actor-learner platform's words; its body is `interreplay.commandline.actor_learner`."""

import sys

from interreplay.commandline.installation import check_installation

check_installation(__file__)

from interreplay.commandline.main import actor_learner  # noqa: E402

if __name__ == "__main__":
    sys.exit(actor_learner())  # holds signals back while it imports what takes seconds

from interreplay.commandline.actor_learner import main  # noqa: E402

__all__ = ["main"]
