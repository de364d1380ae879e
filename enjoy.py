"""Watch a trained policy; also accepts LCER's flags. Implemented in `interreplay.experiments.commands.evaluate`."""

import sys

from interreplay.experiments.commands.installation import check_installation

check_installation(__file__)

from interreplay.experiments.commands.lcer import enjoy as main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
