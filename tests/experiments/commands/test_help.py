"""Names of commands, and `--help` of every command: content, consistent names, and few imports."""

import argparse
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from interreplay.experiments.commands import main as command
from interreplay.experiments.commands.main import COMMANDS
from interreplay.experiments.flags.run_flags import FLAGS
from interreplay.experiments.process.outcome import format_program
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.setting_fields import OneOf, OrWord
from interreplay.learning.settings import ReplaySettings
from tests.experiments.commands.command_lines import rejects
from tests.experiments.commands.parsers import PARSERS


def listed(parser):
    """Return the flags except those of the original work without effect."""
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]


def takes_value(action):
    return action.nargs != 0 and not isinstance(action, argparse._SubParsersAction)


def test_every_flag_has_a_description_and_a_placeholder():
    for name, parser in PARSERS.items():
        text = parser.format_help()
        for action in listed(parser):
            assert action.help, action
            assert all(option in text for option in action.option_strings), name
            assert action.metavar or action.choices or not takes_value(action), action


def names_of(accepts):
    other = getattr(accepts, "other", None)
    return names_of(other) if isinstance(accepts, OrWord) else getattr(accepts, "names", ())


def test_choices_are_listed():
    shown = {action.dest: str(action.metavar) for action in PARSERS["train"]._actions}
    choices = {name: flag for name, flag in FLAGS.items() if "|" in shown[name]}
    assert {"device", "matrix_dtype", "exploration", "kernel", "returns"} <= choices.keys()
    assert shown["device"] == "cpu|cuda|auto" and shown["optimizer"] == "Adam|RMSprop"
    for name, found in ReplaySettings.__dataclass_fields__.items():
        accepts = found.metadata["accepts"]
        if isinstance(accepts, OneOf):
            assert all(word in shown[name] for word in names_of(accepts))


def test_help_states_the_defaults_of_every_algorithm():
    for name, row in ALGORITHMS.items():
        for flag, value in (*row.of_run.items(), ("buffer", row.buffer)):
            text = FLAGS[flag].options()["help"]
            usual = re.search(r"default: ([^;)]+)", text)[1]
            own = re.search(rf"\b{name}\b[^;:)]*: ([^;)]+)", text)
            assert (own[1] if own else usual) == str(value), (name, flag)
        assert (name in FLAGS["train_batch_size"].help.partition("(")[0]) == row.unrolls


def test_the_usage_names_the_whole_command():
    assert PARSERS["experience export"].format_usage().startswith("usage: interreplay experience export ")


def test_one_name_for_the_folder_of_results():
    old = {"train": "--local_dir", "study": "--results_dir", "report": "--output", "rllib train": "--local_dir"}
    old |= {"smoketest": "--results_dir", "submit.py": "--results_dir"}
    for name, before in old.items():
        (action,) = [action for action in PARSERS[name]._actions if before in action.option_strings]
        assert action.option_strings[0] == "--output_dir" and action.dest == "output_dir", name


FIRST_HELP = """
import sys
from interreplay.experiments.commands.main import main
assert main(sys.argv[1:]) == 0
heavy = {"torch", "ray", "numpy", "gymnasium", "pandas", "interreplay.analysis"} & set(sys.modules)
assert not heavy, heavy
"""


def test_the_first_help_and_the_version_import_nothing_large():
    for word, start in (("--help", "usage: interreplay COMMAND"), ("--version", "interreplay 0.")):
        ran = subprocess.run([sys.executable, "-c", FIRST_HELP, word], capture_output=True, text=True, timeout=600)
        assert ran.returncode == 0 and ran.stdout.startswith(start), ran.stderr


def printed(name, capsys, *words):
    with pytest.raises(SystemExit) as end:
        PARSERS[name].given(["--help", *words])
    assert end.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["train", "study"])
def test_help_is_short_and_complete_on_request(name, capsys):
    short, whole = printed(name, capsys), printed(name, capsys, "all")
    assert short.count("\n") <= 140 < whole.count("\n")
    assert "--help all" in short and "--total_env_steps" in short and "--kernel" not in short
    assert all(option in whole for action in listed(PARSERS[name]) for option in action.option_strings)


def test_help_on_a_word(capsys):
    for words in ("replay --buffer --gamma", "learner --gamma --buffer_size", "n-step --n_step --gamma"):
        word, there, absent = words.split()
        text = printed("train", capsys, word)
        assert f"  {there} " in text and f"  {absent} " not in text
    message = "--help zzz: expected all, or a part of the name or heading of a flag"
    rejects(capsys, PARSERS["train"].given, ["--help", "zzz"], message)


ROOT = Path(__file__).resolve().parents[3]


def test_every_command_is_checked_and_has_a_main():
    assert {*COMMANDS} <= {name.split()[0] for name in PARSERS}
    for name in command.COMMANDS:
        assert callable(importlib.import_module(command.COMMANDS[name][0]).main)


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["-h"], 0), ([], 2)])
def test_help_lists_all_commands(words, code, capsys):
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
    assert format_program("train") == expected


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_the_report_requires_its_extra(package, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["interreplay"])
    for name in ("draw", "page"):
        monkeypatch.delitem(sys.modules, f"interreplay.experiments.report.{name}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)  # its import raises ModuleNotFoundError
    assert command.main(["report", "x"]) == 2
    expected = f"interreplay report: error: {package} is missing; pip install 'interreplay[analysis]'\n"
    assert capsys.readouterr().err == expected
