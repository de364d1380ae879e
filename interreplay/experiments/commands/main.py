"""The command `interreplay`. Its subcommands are imported when they are used."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Sequence

from interreplay import __version__
from interreplay.environments.imports import pause_garbage_collection
from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.process import outcome
from interreplay.experiments.process.signals import end_at_ctrl_c, end_without_saving

HERE = "interreplay.experiments.commands"
COMMANDS = {
    "train": (f"{HERE}.train", "train an agent with a replay method"),
    "evaluate": (f"{HERE}.evaluate", "evaluate a trained policy: returns, video, dataset"),
    "export": (f"{HERE}.export", "write a trained policy as ONNX or PyTorch's pt2"),
    "study": (f"{HERE}.study", "run a grid of runs, on one machine or many"),
    "report": ("interreplay.experiments.report.report", "draw figures and tables from the results of runs"),
    "experience": (f"{HERE}.experience", "list, draw or export the kept transitions of runs"),
    "fork": (f"{HERE}.fork", "continue a checkpoint under several replay methods"),
    "check": (f"{HERE}.check", "check a replay method of your own against the contract"),
    "smoketest": (f"{HERE}.smoketest", "check this installation"),
}
"""Modules with a function ``main(argv)`` that returns an exit code, and their purposes."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; return the exit code, 2 for an unknown one."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        with outcome.keep_output_open():
            print(usage())
        return 0 if words else 2
    if words[0] == "--version":
        with outcome.keep_output_open():
            print(f"interreplay {__version__}")
        return 0
    name, *rest = words
    if name == "cluster":
        name = "study"  # its previous name
    if name not in COMMANDS:
        kind = "flag before the command" if name.startswith("-") else "command"
        sys.stderr.write(f"interreplay: error: unknown {kind} {name!r}; {accepted_names(name, COMMANDS)}\n")
        return 2
    sys.argv = [f"interreplay {name}", *rest]
    return _run(COMMANDS[name][0], rest)


def command() -> int:
    """Run the console script `interreplay`."""
    if sys.argv[1:2] in (["train"], ["study"], ["cluster"]):
        end_without_saving()  # before imports that take seconds
    return main()


def rllib() -> int:
    """Run the console script `rllib`."""
    return _run("interreplay.experiments.rllib_command.main", None)


def run_script(name: str) -> int:
    """Handle signals before the slow imports, and run a command with this process's arguments."""
    end_without_saving()
    return _run(f"{HERE}.{name}", None)


train = functools.partial(run_script, "train")
study = functools.partial(run_script, "study")
cluster = study
"""Console scripts `interreplay-train`, `interreplay-study` and `interreplay-cluster`."""


def _run(module: str, words: Sequence[str] | None) -> int:
    try:
        with end_at_ctrl_c(), pause_garbage_collection():
            found = importlib.import_module(module)
    except UsageError as error:  # a user's package shadows the catalog of replay methods
        sys.stderr.write(f"interreplay: error: {error}\n")
        return 2
    return found.main(words)


def usage() -> str:
    """Return the usage message."""
    lines = ["usage: interreplay COMMAND ...", ""]
    for name, (_, purpose) in COMMANDS.items():
        lines.append(f"  {name:<10} {purpose}")
    lines += ["", "interreplay COMMAND --help prints its flags, interreplay --version the version."]
    return "\n".join(lines)
