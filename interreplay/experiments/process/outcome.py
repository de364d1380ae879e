"""How a command ends: its exit code, errors in one line, and output that nobody takes."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from interreplay.errors import InterreplayError

RED = 31
GREEN = 32
"""Colors of escape sequences."""


def run(prog: str, act: Callable[[], int], stopped: str = "stopped at once; what was saved before is kept") -> int:
    """Carry out a command; what a reader of its output does is nothing to it.

    Args:
        prog: The command's name.
        act: What it does; returns the exit code.
        stopped: What is written after Ctrl-C.

    Returns:
        The exit code: that of `act`, that of an `InterreplayError` (2, or 1 where a run failed), 130 after Ctrl-C.
    """
    with lasting_output():
        try:
            return act()
        except InterreplayError as error:
            for line in error.lines():
                sys.stderr.write(f"{colored(f'{prog}: error: {line}', RED, sys.stderr)}\n")
            return error.exit_code
        except KeyboardInterrupt:
            sys.stderr.write(f"{prog}: {stopped}\n")
            return 130


def colored(text: str, color: int, stream: TextIO) -> str:
    """Return a text in a color where a terminal shows it, unchanged elsewhere and where ``NO_COLOR`` is set.

    Args:
        text: One line or a part of one.
        color: Code of the color in escape sequences, such as `RED`.
        stream: Where the text will be written.
    """
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return text
    return f"\x1b[{color}m{text}\x1b[0m"


def folded(text: str, stream: TextIO) -> str:
    """Return a line that breaks between words where a terminal is narrower, unchanged elsewhere."""
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its kind where it has none."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextlib.contextmanager
def lasting_output() -> Iterator[None]:
    """Put streams that no longer fail in the place of ``sys.stdout`` and ``sys.stderr``, as long as it is entered.

    A closed pipe (``... | head -1``), a terminal that is gone or a full disk below a log file would otherwise end a
    run, without a checkpoint, at its next line.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err = LastingStream(before[0]), LastingStream(before[1])
    try:
        yield
    finally:
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = before


class LastingStream:
    """A text stream that drops what cannot be written, and characters that its encoding does not have.

    Args:
        stream: Where to write; None, as Python has it where the descriptor was closed at the start, drops everything.
    """

    def __init__(self, stream: TextIO | None):
        self._stream = stream if stream is not None else nowhere()

    def write(self, text: str) -> int:
        """Write a text, or nothing."""
        try:
            self._stream.write(text)
        except UnicodeEncodeError as error:
            return self.write(text.encode(error.encoding, "replace").decode(error.encoding))
        except (OSError, ValueError):
            self._drop()
        return len(text)

    def flush(self) -> None:
        """Hand on what is in the stream's own memory."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self._drop()

    def isatty(self) -> bool:
        """Return whether somebody looks at a terminal."""
        with contextlib.suppress(OSError, ValueError):
            return self._stream.isatty()
        return False

    def close(self) -> None:
        """Leave the stream open: log handlers that found this one close it at the program's end."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _drop(self) -> None:
        """Point the descriptor to nowhere, so that what the stream holds back does not fail at the program's end."""
        try:
            with nowhere() as file:
                os.dup2(file.fileno(), self._stream.fileno())
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = nowhere()


def nowhere() -> TextIO:
    """Open a file that forgets what is written to it."""
    return open(os.devnull, "w")


def write_past_the_streams(text: str) -> None:
    """Write an error's line past the streams: the thread that hangs may hold their locks."""
    with contextlib.suppress(OSError):
        os.write(2, f"{os.path.basename(sys.argv[0])}: error: {text}\n".encode())
