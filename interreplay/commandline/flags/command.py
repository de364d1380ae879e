"""How every command ends: an exit code, and one line on stderr where something is to be mended."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from interreplay.errors import InterreplayError, UsageError

MENDABLE, BROKEN_PIPE, CTRL_C = 2, 141, 130


def ended(program: str, act: Callable[[], int], stopped: str) -> int:
    """Do the work of a command.

    Args:
        program: Its name, with which error messages begin.
        act: The work; returns the exit code.
        stopped: What is said after Ctrl-C.

    Returns:
        The exit code: that of `act`, 2 after an error that the user can mend, 130 after Ctrl-C.
    """
    print_what_the_terminal_can_show()
    try:
        return act()
    except (UsageError, InterreplayError) as error:
        sys.stderr.write(f"{program}: error: {' '.join(str(error).split())}\n")
        return MENDABLE
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        sys.stderr.write(f"{program}: {stopped}\n")
        return CTRL_C


def print_what_the_terminal_can_show() -> None:
    """Print ``?`` for a letter that the terminal's encoding lacks, as latin-1 lacks Greek ones."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
