"""Settings of command lines, and what runs of the training script leave on disk."""

import csv
import functools
import os
import shlex
import subprocess
import sys
from pathlib import Path

from argument_parser import make_parser, resolve_settings
from interreplay.runs.run_folder import STEPS

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 500
"""Seconds for a command on a busy machine."""
parser = functools.cache(make_parser)


def users_folder(folder: Path, monkeypatch, **modules: str):
    """Yield the current folder of a user, with modules that are forgotten afterwards."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield folder
    for name in modules:
        sys.modules.pop(name, None)


def given(line: str):
    return parser().given(shlex.split(line))


def settings_of(line: str):
    return resolve_settings(given(line))


def settings(*words: str):
    return resolve_settings(parser().given(words))


def start(*arguments: object, **options) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "custom_training.py"), *map(str, arguments)]
    own = os.environ | {"OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, text=True, env=own, **pipes, **options)


def the_run(local_dir: Path) -> Path:
    (folder,) = local_dir.iterdir()
    return folder


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def rows(folder: Path) -> list[dict[str, str]]:
    return read_csv(folder / "progress.csv")


def steps(folder: Path) -> list[int]:
    return [int(float(row[STEPS])) for row in rows(folder)]


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("checkpoint_*"))


def one_line(text: str, *parts: str) -> None:
    assert text.count("\n") == 1 and "Traceback" not in text, text
    for part in (": error: ", *parts):
        assert part in text


def code_of(command, words) -> int:
    """Return the exit code of a command, also if its parser ends it."""
    try:
        return command(words)
    except SystemExit as end:
        return end.code


def rejects(capsys, command, words, *parts: str, code: int = 2) -> None:
    """Assert that a command ends with one line of error that contains these parts."""
    assert code_of(command, words) == code
    one_line(capsys.readouterr().err, *parts)
