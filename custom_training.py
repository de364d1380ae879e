"""Train an agent with a replay method; its body is `interreplay.commandline.train`."""

import sys

from interreplay.commandline.installation import check_installation
from interreplay.runs.signals import before_anything_is_to_save

check_installation(__file__)
if __name__ == "__main__":
    before_anything_is_to_save()  # what is imported next takes seconds

from interreplay.commandline.train import main  # noqa: E402

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
