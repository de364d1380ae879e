"""Train an agent of the folder configs in RLcycle's words; its body is `interreplay.experiments.commands.run_agent`."""

import sys

from interreplay.experiments.commands.installation import check_installation

check_installation(__file__)

from interreplay.experiments.commands.main import agent  # noqa: E402

if __name__ == "__main__":
    sys.exit(agent())  # holds signals back while it imports what takes seconds

from interreplay.experiments.commands.run_agent import main  # noqa: E402

__all__ = ["main"]
