"""The command `interreplay`: one name for what the package does, each part imported when it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence

from interreplay import __version__
from interreplay.errors import accepted_names
from interreplay.experiments.process.signals import before_anything_is_to_save

COMMANDS = {
    "train": ("interreplay.experiments.commands.train", "train an agent with a replay method"),
    "evaluate": ("interreplay.experiments.commands.evaluate", "let a trained policy act: returns, video, dataset"),
    "export": ("interreplay.experiments.commands.export", "a trained policy as a file: ONNX, or PyTorch's pt2"),
    "study": ("interreplay.experiments.commands.study", "many runs at once, on one machine or many"),
    "report": ("interreplay.experiments.report.__main__", "figures and tables from the results of runs"),
    "check": ("interreplay.experiments.commands.check", "check a replay method of your own against the contract"),
    "smoketest": ("interreplay.experiments.commands.smoketest", "is this installation sound?"),
}
"""Modules with a function ``main(argv)`` that returns an exit code, and what they are for."""
NEEDS = {"report": ("matplotlib", "pandas")}
"""What commands need that is not always installed, here the extra ``analysis``; it is looked for, not imported."""
OLD_NAMES = {"cluster": "study"}
"""Commands by names that they had, which go on working; nothing lists them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Hand the rest of the command line to a part.

    Args:
        argv: The command line without the program's name; by default this process's own.

    Returns:
        The part's exit code; 2 for an unknown one.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(f"{usage()}\n")
        return 0 if words else 2
    if words[0] == "--version":
        sys.stdout.write(f"interreplay {__version__}\n")
        return 0
    name, *rest = OLD_NAMES.get(words[0], words[0]), *words[1:]
    if name not in available():
        sys.stderr.write(f"interreplay: error: unknown command {name!r}; {accepted_names(name, available())}\n")
        return 2
    sys.argv = [f"interreplay {name}", *rest]
    return importlib.import_module(COMMANDS[name][0]).main(rest)


def command() -> int:
    """Run the console script `interreplay`."""
    if sys.argv[1:2] in (["train"], ["study"], ["cluster"]):
        before_anything_is_to_save()  # what they import takes seconds
    return main()


def train() -> int:
    """Run the console script `interreplay-train`."""
    return _at_once("train")


def study() -> int:
    """Run the console script `interreplay-study`, and `interreplay-cluster`, as it was called before."""
    return _at_once("study")


cluster = study  # by which the script of an older installation calls it


def actor_learner() -> int:
    """Run the script `main.py`."""
    before_anything_is_to_save()
    return importlib.import_module("interreplay.experiments.commands.actor_learner").main()


def agent() -> int:
    """Run the script `run_agent.py`."""
    before_anything_is_to_save()
    return importlib.import_module("interreplay.experiments.commands.run_agent").main()


def _at_once(name: str) -> int:
    before_anything_is_to_save()
    return importlib.import_module(COMMANDS[name][0]).main()


def available() -> dict[str, str]:
    """Return the parts that are installed, and what they are for."""
    return {name: text for name, (_, text) in COMMANDS.items() if all(map(_exists, NEEDS.get(name, ())))}


def usage() -> str:
    """Return how to call it."""
    last = "interreplay COMMAND --help tells its flags, interreplay --version the version."
    lines = [f"  {name:<10} {text}" for name, text in available().items()]
    return "\n".join(["usage: interreplay COMMAND ...", "", *lines, "", last])


def _exists(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
