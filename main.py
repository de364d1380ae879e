"""Train, resume or test in an actor-learner platform's words; see `interreplay.experiments.commands.actor_learner`."""

import sys

from interreplay.experiments.commands.installation import check_installation

check_installation(__file__)

from interreplay.experiments.commands.main import actor_learner  # noqa: E402

if __name__ == "__main__":
    sys.exit(actor_learner())  # holds signals back while it imports what takes seconds

from interreplay.experiments.commands.actor_learner import main  # noqa: E402

__all__ = ["main"]
