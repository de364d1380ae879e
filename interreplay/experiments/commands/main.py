"""The command `interreplay`, whose subcommands are imported when they are used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence

from interreplay import __version__
from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.process.signals import before_anything_is_to_save

COMMANDS = {
    "train": ("interreplay.experiments.commands.train", "train an agent with a replay method"),
    "evaluate": ("interreplay.experiments.commands.evaluate", "evaluate a trained policy: returns, video, dataset"),
    "export": ("interreplay.experiments.commands.export", "write a trained policy as ONNX or PyTorch's pt2"),
    "study": ("interreplay.experiments.commands.study", "run a grid of runs, on one machine or many"),
    "report": ("interreplay.experiments.report.__main__", "draw figures and tables from the results of runs"),
    "experience": ("interreplay.experiments.commands.experience", "list, draw or export the kept transitions of runs"),
    "fork": ("interreplay.experiments.commands.fork", "continue a checkpoint under several replay methods"),
    "check": ("interreplay.experiments.commands.check", "check a replay method of your own against the contract"),
    "smoketest": ("interreplay.experiments.commands.smoketest", "check this installation"),
}
"""Modules with a function ``main(argv)`` that returns an exit code, and their purposes."""
NEEDS = {"report": ("matplotlib", "pandas")}
"""Optional packages that commands require; they are searched for, not imported."""
OLD_NAMES = {"cluster": "study"}
"""Previous names of commands, which still work but are not listed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Args:
        argv: The command line without the program's name; by default this process's own.

    Returns:
        The subcommand's exit code; 2 for an unknown subcommand.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(f"{usage()}\n")
        return 0 if words else 2
    if words[0] == "--version":
        sys.stdout.write(f"interreplay {__version__}\n")
        return 0
    name = OLD_NAMES.get(words[0], words[0])
    rest = words[1:]
    if name not in available():
        sys.stderr.write(f"interreplay: error: unknown command {name!r}; {accepted_names(name, available())}\n")
        return 2
    sys.argv = [f"interreplay {name}", *rest]
    return _run(name, rest)


def command() -> int:
    """Run the console script `interreplay`."""
    if sys.argv[1:2] in (["train"], ["study"], ["cluster"]):
        before_anything_is_to_save()  # their imports take seconds
    return main()


def train() -> int:
    """Run the console script `interreplay-train`."""
    return _at_once("train")


def study() -> int:
    """Run the console scripts `interreplay-study` and `interreplay-cluster`."""
    return _at_once("study")


cluster = study  # called by `cluster_run.py` and `interreplay-cluster`


def actor_learner() -> int:
    """Run the script `main.py`."""
    before_anything_is_to_save()
    return importlib.import_module("interreplay.experiments.commands.actor_learner").main()


def agent() -> int:
    """Run the script `run_agent.py`."""
    before_anything_is_to_save()
    return importlib.import_module("interreplay.experiments.commands.run_agent").main()


def lcer() -> int:
    """Run the script `train.py`."""
    before_anything_is_to_save()
    return importlib.import_module("interreplay.experiments.commands.lcer").main()


def _at_once(name: str) -> int:
    before_anything_is_to_save()
    return _run(name, None)


def _run(name: str, words: Sequence[str] | None) -> int:
    try:
        module = importlib.import_module(COMMANDS[name][0])
    except UsageError as error:  # a package of the user hides the catalog of replay methods
        sys.stderr.write(f"interreplay: error: {error}\n")
        return 2
    return module.main(words)


def available() -> dict[str, str]:
    """Return the subcommands whose packages are installed, and their purposes."""
    found = {}
    for name, (_, purpose) in COMMANDS.items():
        if all(importlib.util.find_spec(package) for package in NEEDS.get(name, ())):
            found[name] = purpose
    return found


def usage() -> str:
    """Return the usage message."""
    last = "interreplay COMMAND --help prints its flags, interreplay --version the version."
    lines = [f"  {name:<10} {text}" for name, text in available().items()]
    return "\n".join(["usage: interreplay COMMAND ...", "", *lines, "", last])
