"""Train with the flags of LCER's train.py; implemented in `interreplay.experiments.commands.lcer`."""

import sys

from interreplay.experiments.commands.installation import check_installation

check_installation(__file__)

from interreplay.experiments.commands.main import run_script  # noqa: E402

if __name__ == "__main__":
    sys.exit(run_script("lcer"))  # defers signals during the slow imports

from interreplay.experiments.commands.lcer import main  # noqa: E402

__all__ = ["main"]
