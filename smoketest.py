"""Check the installation; implemented in `interreplay.experiments.commands.smoketest`."""

import sys

from interreplay.experiments.commands.installation import check_installation

check_installation(__file__, reports_itself=True)

from interreplay.experiments.commands.smoketest import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
