"""All flags of the command line and their conversion to settings; implemented in `interreplay.experiments.flags`."""

import sys

from interreplay.experiments.commands.installation import check_installation

check_installation(__file__)

from interreplay.experiments.flags.algorithm_flags import TRAINERS  # noqa: E402
from interreplay.experiments.flags.run_flags import CATALOGUE, CHANGEABLE, DEFAULTS, FLAGS, GROUPS  # noqa: E402
from interreplay.experiments.flags.training_flags import (  # noqa: E402
    get_preset,
    get_preset_settings,
    make_parser,
    preset_summary,
    replay_resumed,
    resolve_settings,
    settings_resumed,
)

if __name__ == "__main__":
    make_parser().given(sys.argv[1:] or ["--help"])

__all__ = [
    "CATALOGUE",
    "CHANGEABLE",
    "DEFAULTS",
    "FLAGS",
    "GROUPS",
    "TRAINERS",
    "make_parser",
    "get_preset",
    "preset_summary",
    "replay_resumed",
    "resolve_settings",
    "settings_resumed",
    "get_preset_settings",
]
