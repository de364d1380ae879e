"""Train an agent with a replay method; its body is `interreplay.experiments.commands.train`."""

import sys

from interreplay.experiments.commands.installation import check_installation

check_installation(__file__)

from interreplay.experiments.commands.main import train  # noqa: E402

if __name__ == "__main__":
    sys.exit(train())  # holds signals back while it imports what takes seconds

from interreplay.experiments.commands.train import main  # noqa: E402

__all__ = ["main"]
