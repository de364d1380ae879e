"""Is this installation sound? Its body is `interreplay.commandline.smoketest`."""

import sys

from interreplay.commandline.smoketest import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
