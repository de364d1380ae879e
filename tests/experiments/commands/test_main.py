"""The command `interreplay`: subcommands by name, each imported on use."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from interreplay.experiments.commands import main as command
from interreplay.experiments.process.outcome import program_for

ROOT = Path(__file__).resolve().parents[3]


def test_every_part_has_a_main():
    assert {"train", "evaluate", "smoketest"} <= command.COMMANDS.keys()
    for name in command.COMMANDS:
        assert callable(importlib.import_module(command.COMMANDS[name][0]).main)


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["-h"], 0), ([], 2)])
def test_help(words, code, capsys):
    assert command.main(words) == code
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in command.COMMANDS)


def test_a_study_keeps_its_old_name_too(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["interreplay"])
    words = ["--buffers", "NMER", "--envs", "Pendulum-v1", "--seeds", "3", "--count"]
    assert command.main(["study", *words]) == command.main(["cluster", *words]) == 0
    assert capsys.readouterr().out.split() == ["3", "3"]
    assert "cluster" not in command.usage() and command.cluster is command.study
    for name in ("study", "cluster"):
        with pytest.raises(SystemExit) as caught:
            command.main([name, "--gama", "1"])
        assert caught.value.code == 2 and capsys.readouterr().err.startswith("interreplay study: error: ")


@pytest.mark.parametrize(
    ("module", "started", "expected"),
    [
        (None, "/usr/bin/interreplay-study", "interreplay train"),
        (None, "interreplay study", "interreplay train"),
        (None, f"{ROOT}/cluster_run.py", f"python {ROOT}/custom_training.py"),
        (None, "/elsewhere/mine.py", "interreplay train"),
        (None, "", "interreplay train"),
        ("interreplay.__main__", "interreplay study", "python -m interreplay train"),
    ],
)
def test_printed_commands_exist_where_the_program_was_started(module, started, expected, monkeypatch):
    spec = module and SimpleNamespace(name=module)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    monkeypatch.setattr(sys, "argv", [started])
    assert program_for("train") == expected


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_the_report_requires_its_extra(package, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["interreplay"])
    for name in ("draw", "page"):
        monkeypatch.delitem(sys.modules, f"interreplay.experiments.report.{name}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)  # its import raises ModuleNotFoundError
    assert command.main(["report", "x"]) == 2
    expected = f"interreplay report: error: {package} is missing; pip install 'interreplay[analysis]'\n"
    assert capsys.readouterr().err == expected


@pytest.mark.slow
def test_the_package_itself_is_the_command_too():
    for words in (["--version"], ["--help"]):
        done = subprocess.run([sys.executable, "-m", "interreplay", *words], capture_output=True, text=True)
        assert done.returncode == 0 and "interreplay" in done.stdout, done.stderr
    assert command.main(["--version"]) == 0
