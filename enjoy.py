"""Watch a trained policy; also accepts LCER's flags. Implemented in `interreplay.experiments.commands.evaluate`."""

import sys

from interreplay.experiments.commands.installation import check_installation

check_installation(__file__)

from interreplay.experiments.process.signals import end_at_ctrl_c  # noqa: E402

with end_at_ctrl_c():  # during the slow imports
    from interreplay.experiments.commands.lcer import enjoy as main

if __name__ == "__main__":
    sys.exit(main())
