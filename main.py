"""Train, resume or test with another platform's flags; see `interreplay.experiments.commands.actor_learner`."""

import sys

from interreplay.experiments.commands.installation import check_installation

check_installation(__file__)

from interreplay.experiments.commands.main import run_script  # noqa: E402

if __name__ == "__main__":
    sys.exit(run_script("actor_learner"))  # defers signals during the slow imports

from interreplay.experiments.commands.actor_learner import main  # noqa: E402

__all__ = ["main"]
