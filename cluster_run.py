"""Run a study, many runs at once; its body is `interreplay.commandline.study`."""

import sys

from interreplay.commandline.study import command, main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(command())
