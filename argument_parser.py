"""Every flag of the command line; its body is `interreplay.commandline.flags.training_flags`."""

from interreplay.commandline.installation import check_installation

check_installation(__file__)

from interreplay.commandline.flags.training_flags import (  # noqa: E402
    CATALOGUE,
    CHANGEABLE,
    DEFAULTS,
    GROUPS,
    NOW,
    TRAINERS,
    make_parser,
    preset_for,
    preset_told,
    replay_resumed,
    settings_for,
    settings_resumed,
    tuned_for,
)

__all__ = [
    "CATALOGUE",
    "CHANGEABLE",
    "DEFAULTS",
    "GROUPS",
    "NOW",
    "TRAINERS",
    "make_parser",
    "preset_for",
    "preset_told",
    "replay_resumed",
    "settings_for",
    "settings_resumed",
    "tuned_for",
]
