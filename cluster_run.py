"""Run a study, many runs at once; its body is `interreplay.commandline.study`."""

import sys

from interreplay.commandline.installation import check_installation

check_installation(__file__)

from interreplay.commandline.study import command, main  # noqa: E402

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(command())
