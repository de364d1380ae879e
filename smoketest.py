"""Check the installation; implemented in `interreplay.experiments.commands.smoketest`."""

import sys

from interreplay.experiments.commands.installation import check_installation

check_installation(__file__, reports_itself=True)

from interreplay.experiments.process.signals import end_at_ctrl_c  # noqa: E402

with end_at_ctrl_c():  # during the slow imports
    from interreplay.experiments.commands.smoketest import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
