"""How commands end: codes, one line, and output that nobody takes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interreplay.errors import CheckpointError, EnvironmentFailure, RunFailure, RunnerLost, UsageError
from interreplay.experiments.process import outcome
from interreplay.experiments.process.outcome import LastingStream, lasting_output

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("a\n  b"), 2),
        (CheckpointError("a b"), 2),
        (EnvironmentFailure("E-v0", "raised ValueError: a"), 1),
        (RunnerLost("a b"), 1),
        (RunFailure("a b"), 1),
    ],
)
def test_errors_are_one_line_and_a_code(error, code, capsys):
    def act():
        raise error

    assert outcome.run("prog", act) == code
    out, err = capsys.readouterr()
    assert out == "" and err == f"prog: error: {' '.join(str(error).split())}\n"


def test_what_was_done_gives_the_code_and_ctrl_c_is_130(capsys):
    assert outcome.run("prog", lambda: 7) == 7

    def act():
        raise KeyboardInterrupt

    assert outcome.run("prog", act, "stopped") == 130
    assert capsys.readouterr().err == "prog: stopped\n"


def test_a_bug_keeps_its_traceback_and_the_streams_come_back():
    before = sys.stdout, sys.stderr
    with pytest.raises(ZeroDivisionError):
        outcome.run("prog", lambda: 1 // 0)
    assert (sys.stdout, sys.stderr) == before


class Full(io.StringIO):
    def write(self, text):
        raise OSError(28, "No space left on device")


def test_a_stream_that_fails_is_left_alone_from_then_on():
    stream = LastingStream(Full())
    assert stream.write("lost") == 4
    stream.flush()
    assert stream.write("too") == 3 and not stream.isatty()
    assert LastingStream(None).write("nobody") == 6
    assert LastingStream(None).encoding and stream.encoding  # whatever is asked of a stream


def test_characters_that_an_encoding_does_not_have_are_replaced():
    raw = io.BytesIO()
    stream = LastingStream(io.TextIOWrapper(raw, encoding="latin-1"))
    stream.write("Müller, λ\n")
    stream.flush()
    assert raw.getvalue() == "Müller, ?\n".encode("latin-1")


def test_a_closed_pipe_ends_nothing(monkeypatch, capfd):
    read, write = os.pipe()
    with os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        os.close(read)
        with lasting_output():
            for _ in range(3):
                print("a line", flush=True)
        pipe.write("what Python writes at its end")
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["custom_training.py --list-buffers", "-m interreplay.experiments.commands.main --help"]
)
@pytest.mark.parametrize("pipe", ["| head -1", "| true", ">&-"])
def test_nobody_reads_a_list(words, pipe):
    command = f"set -o pipefail; {sys.executable} {words} {pipe}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
