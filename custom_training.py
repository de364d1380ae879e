"""Train an agent with a replay method; its body is `interreplay.commandline.train`."""

import sys

from interreplay.commandline.installation import check_installation

check_installation(__file__)

from interreplay.commandline.train import main  # noqa: E402

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
