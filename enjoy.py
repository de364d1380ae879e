"""Watch a trained policy; its body is `interreplay.commandline.evaluate`."""

import sys

from interreplay.commandline.evaluate import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
