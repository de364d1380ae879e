"""Train an agent with RLcycle's settings; implemented in `interreplay.experiments.commands.run_agent`."""

import sys

from interreplay.experiments.commands.installation import check_installation

check_installation(__file__)

from interreplay.experiments.commands.main import run_script  # noqa: E402

if __name__ == "__main__":
    sys.exit(run_script("run_agent"))  # defers signals during the slow imports

from interreplay.experiments.commands.run_agent import main  # noqa: E402

__all__ = ["main"]
