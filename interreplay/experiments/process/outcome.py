"""What commands print and return: exit codes, one-line errors, colors, closed pipes, and how to start them again."""

from __future__ import annotations

import contextlib
import io
import os
import select
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from interreplay.errors import InterreplayError

RED = 31
GREEN = 32
"""Colors of escape sequences."""


def run(act: Callable[[], int], stopped: str = "stopped at once; what was saved before is kept", prog: str = "") -> int:
    """Run a command and return its exit code; the command continues if the reader of its output has closed the pipe.

    `stopped` is the message after Ctrl-C, and `prog` the name in messages; by default that of this program.

    Returns:
        The exit code of `act`, or of an `InterreplayError` (2, or 1 if a run failed), or 130 after Ctrl-C.
    """
    prog = prog or os.path.basename(sys.argv[0])
    with keep_output_open():
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
    """Color a text for a terminal. Return it unchanged for other streams and if ``NO_COLOR`` is set."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return text
    return f"\x1b[{color}m{text}\x1b[0m"


def wrap_line(text: str, stream: TextIO) -> str:
    """Wrap a line at the width of the terminal. Return it unchanged for other streams."""
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def write_line(line: str, stream: TextIO | None = None) -> None:
    """Write a line to a stream, by default standard output, and flush it."""
    stream = stream or sys.stdout
    stream.write(f"{line}\n")
    stream.flush()


@contextlib.contextmanager
def keep_output_open() -> Iterator[None]:
    """Keep writes to standard output and standard error from raising, so that they do not end a run.

    Writes fail if a pipe is closed (``... | head -1``), a terminal is gone, or the disk of a log file is full.
    """
    before = (sys.stdout, sys.stderr)
    sys.stdout = _make_lasting(sys.stdout)
    sys.stderr = _make_lasting(sys.stderr)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # a stream was closed
            sys.stdout.flush()
            sys.stderr.flush()
        sys.stdout, sys.stderr = before


class _LastingFile(io.FileIO):
    """A descriptor that is redirected to the null device when a write fails (see Python's note on SIGPIPE)."""

    def write(self, data: Any) -> int:
        try:
            while (written := super().write(data)) is None:  # a full pipe that does not block
                select.select([], [self], [])
            return written
        except OSError:
            with open(os.devnull, "wb") as null:
                os.dup2(null.fileno(), self.fileno())
            return len(data)


def _make_lasting(stream: TextIO | None) -> TextIO:
    if stream is None:  # the descriptor was closed when Python started
        return open(os.devnull, "w")
    if not isinstance(stream, io.TextIOWrapper):  # in memory, or of Jupyter, whose descriptor is another terminal
        return stream
    try:
        descriptor = stream.fileno()
        stream.flush()
    except io.UnsupportedOperation:  # a stream in memory
        return stream
    file = io.BufferedWriter(_LastingFile(descriptor, "w", closefd=False))
    return io.TextIOWrapper(file, encoding=stream.encoding, errors="replace", line_buffering=True)


SCRIPTS = {"train": "custom_training.py", "study": "cluster_run.py"}
"""Scripts of the repository by subcommand; the installed package has the subcommands only."""


def format_program(command: str) -> str:
    """Return how to start another command in the way in which this program was started."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name.startswith("interreplay."):
        return f"python -m interreplay {command}"
    if sys.argv[0].endswith(".py"):
        script = Path(sys.argv[0]).with_name(SCRIPTS[command])
        if script.is_file():
            return f"python {shlex.quote(str(script))}"
    return f"interreplay {command}"


def program() -> str:
    """Return the command that started this program, for messages about how to start it again."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == "interreplay.__main__":
        return f"python -m {sys.argv[0]}"  # includes the subcommand
    if spec is not None:
        return f"python -m {spec.name}"
    return f"python {sys.argv[0]}" if sys.argv[0].endswith(".py") else sys.argv[0].rsplit("/", 1)[-1]
