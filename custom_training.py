"""Train an agent with a replay method; its body is `interreplay.commandline.train`."""

import sys

from interreplay.commandline.train import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
