"""Watch a trained policy; its body is `interreplay.commandline.evaluate`."""

import sys

from interreplay.commandline.installation import check_installation

check_installation(__file__)

from interreplay.commandline.evaluate import main  # noqa: E402

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
