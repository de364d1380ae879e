"""Entry point of ``python -m interreplay``, the same as the command `interreplay`."""

import sys

from interreplay.experiments.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
