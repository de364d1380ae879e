"""A command-line parser that reads its flags from tables, and the flags of other programs."""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, NoReturn

from interreplay.errors import UsageError, did_you_mean
from interreplay.experiments.process import outcome
from interreplay.experiments.process.outcome import RED, colored
from interreplay.learning.setting_fields import Boolean

Scope = Literal["learning", "method", "identity", "execution", "invocation"]
"""Scopes of flags: the learning problem, the replay method, the run's identity, its execution, or one start of it."""
ASSIGNED = re.compile(r"[A-Za-z_][\w.-]*=")
"""Beginning of a word with a flag and its value, such as ``gamma=0.95``."""
PAIR = "NAME=VALUE"
PART = ("MODULE:CLASS", PAIR)
"""Placeholders in ``--help`` of flags that take arguments after their first word."""
OWN_CLASS = "module:Class"
"""Part of the metavar of flags that accept names of this package, and a user's classes with arguments."""
METAVARS = {
    "selector": PART,
    "neighborhood": PART,
    "synthesizer": PART,
    "wrapper": PART,
    "buffer_arg": PAIR,
    "env_args": PAIR,
    "updates_per_step": "X|A,B",
    "trainer": "ALGORITHM",
    "trainers": "ALGORITHM",
    "buffer": "METHOD",
    "buffers": "METHOD",
    "envs": "ENV",
    "seeds": "N|N,N,...",
    "preset": "NAME|FILE",
    "config": "NAME|FILE",
    "inputs": "FILE",
    "search": "NAME=DISTRIBUTION",
    "address": "ADDRESS|auto|local",
    "together": "PROCESSES",
    "resume": "DIR",
    "fork_from": "DIR",
    "max_time": "90s|30m|2h|1d|1h30m",
    "keep_checkpoints_at": "N,N,...",
    "replay_parameters": "JSON",
    "matern_nu": ".5|1.5|2.5",
    "offline_data": "PATH_OR_ID",
    "offline_where": "CONDITIONS",
    "relabel": "FILE.py:FUNCTION",
    "wandb": "PROJECT",
    "mlflow": "[URI/]EXPERIMENT",
}
"""Placeholders in ``--help`` of values without a placeholder in their reader."""


@functools.cache
def read_programs() -> dict[str, Any]:
    """Return the flags and settings of other programs, by program."""
    import yaml  # imported here so that the smoke test can report that it is missing

    text = (files("interreplay.experiments.flags") / "other_programs.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # ten times as fast


def by_name(table: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return texts by name from a table of names by text."""
    found: dict[str, str] = {}
    for text, names in table.items():
        found |= dict.fromkeys(names, text)
    return found


@dataclass(frozen=True)
class Flag:
    """One flag of the command line.

    Attributes:
        name: Name without dashes, words joined by ``_``; both ``--a_b`` and ``--a-b`` are accepted.
        type: Converts the text into the value; raises ``argparse.ArgumentTypeError``.
        default: Value if the flag is not given.
        help: Text of ``--help``.
        aliases: Further names.
        many: Whether it takes several words, passed to `type` joined by spaces.
        repeat: Whether it may be repeated, collecting a list.
        scope: See `Scope`.
        changeable: Whether a resumed run may change it.
        in_study: Flag or key to use in a study instead, "" if a study has none; None if it is a setting of its runs.
    """

    name: str
    type: Callable[[str], Any]
    default: Any
    help: str
    aliases: tuple[str, ...] = ()
    many: bool = False
    repeat: bool = False
    scope: Scope = "learning"
    changeable: bool = False
    in_study: str | None = None

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments of ``add_argument``."""
        text = self.help
        if isinstance(self.default, str | int | float) and self.default is not False:
            text = f"{text} (default: {self.default})"
        common = {"dest": self.name, "help": text.replace("%", "%%")}
        if isinstance(self.type, Boolean):
            return common | {"type": self.type, "nargs": "?", "const": True, "metavar": "True|False"}
        metavar = getattr(self.type, "metavar", None) or METAVARS.get(self.name) or self.name.split("_")[-1].upper()
        if self.many:
            return common | {"action": _JoinWords, "nargs": "+", "flag": self, "metavar": metavar}
        return common | {"type": self.type, "action": "append" if self.repeat else "store", "metavar": metavar}


class _JoinWords(argparse.Action):
    """Passes all words of a flag to its type at once, so that ``1 20`` and ``[1, 20]`` are read alike.

    A repeatable flag collects a list; arguments by name are merged.
    """

    def __init__(self, *args: Any, flag: Flag, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._flag = flag

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        try:
            value = self._flag.type(" ".join(values))
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from None
        before = getattr(namespace, self.dest, None)
        if self._flag.repeat:
            value = [*(before or ()), value]
        elif self.metavar == PAIR and before is not None:
            value = {**before, **value}
        setattr(namespace, self.dest, value)


class IgnoredFlag(argparse.Action):
    """Prints why a flag has no effect. Flags that are accepted with a default only are rejected with other values."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        original = read_programs()["original"]
        if values != original["default_only"].get(self.dest, values):
            parser.reject(f"--{self.dest}")
        reasons = original["without_value"] | original["with_value"]
        outcome.write_line(f"--{self.dest} has no effect: {reasons.get(self.dest, f'{values} is the default')}")


def accept_harmless(parser: argparse.ArgumentParser) -> None:
    """Let a parser accept the flags of the original work that have no effect."""
    original = read_programs()["original"]
    for name in original["without_value"]:
        parser.add_argument(f"--{name}", action=IgnoredFlag, nargs="?", type=Boolean(), help=argparse.SUPPRESS)
    for name in (*original["with_value"], *original["default_only"]):
        parser.add_argument(f"--{name}", action=IgnoredFlag, help=argparse.SUPPRESS)


class OneLineParser(argparse.ArgumentParser):
    """Argument parser with one-line errors, which suggest the most similar flag for an unknown one."""

    all_flags = "--help"
    instead: Mapping[str, str] = {}
    """Names of flags that do not exist, and what to do instead."""

    def __init__(self, **kwargs: Any):
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and one line."""
        line = f"{self.prog}: error: {' '.join(message.split())}"
        self.exit(2, f"{colored(line, RED, sys.stderr)}\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the values of all flags; exit at an unknown one."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            parser = self
            for action in self._actions:
                if isinstance(action, argparse._SubParsersAction):
                    parser = action.choices.get(getattr(found, action.dest), self)
            parser.reject(unknown[0].partition("=")[0])
        return found

    def reject(self, word: str, hint: str = "") -> NoReturn:
        """Exit because of an unknown word, with what to do instead, a hint, or the most similar flag."""
        flags = []
        for name, action in self._option_string_actions.items():
            if name.startswith("--") and not isinstance(action, IgnoredFlag):
                flags.append(name)
        hint = self.instead.get(word.lstrip("-"), hint)
        # a higher cutoff than for names, because all flags share their dashes
        hint = hint or did_you_mean(word, flags, cutoff=0.7)
        if hint:
            hint = f"{hint}; ".replace("?;", "?")
        kind = "flag" if word.startswith("-") else "argument"
        self.error(f"unknown {kind} {word}; {hint}{self.all_flags} lists every flag")

    def given(self, argv: Sequence[str]) -> Any:
        """Return the values of the flags."""
        return self.parse_args(argv)

    def run(self, act: Callable[[Any], int], argv: Sequence[str] | None, **options: Any) -> int:
        """Run a command with one-line errors; return the exit code. `options` are passed to `outcome.run`."""
        words = sys.argv[1:] if argv is None else argv
        words = list(map(use_underscores, words))
        return outcome.run(lambda: act(self.given(words)), prog=self.prog, **options)


class _Help(argparse.Action):
    """Prints the most common flags, all flags, or the flags about a word, and exits."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        sys.stdout.write(parser.search_help(values))
        parser.exit()


class FlagParser(OneLineParser):
    """Reads flags from tables; the result holds only the flags that were given.

    Args:
        groups: The flags by the title under which ``--help`` lists them.
        instead: Names of flags that do not exist here, and what to do instead.
        complete: Accepts words ``key=value``: merges them and a configuration file with the flags that were given.
        common: Names of the flags that ``--help`` prints; ``--help all`` prints all of them.
        hint: Returns what to do instead of an unknown flag, given its name, its value and the flags that were
            understood; "" without a hint.
        **kwargs: As for ``argparse.ArgumentParser``.
    """

    all_flags = "--help all"

    def __init__(
        self,
        groups: Mapping[str, Sequence[Flag]],
        instead: Mapping[str, str] | None = None,
        complete: Callable[[dict[str, Any], list[str]], dict[str, Any]] | None = None,
        common: Iterable[str] = (),
        hint: Callable[[str, str, Mapping[str, Any]], str] | None = None,
        **kwargs: Any,
    ):
        super().__init__(argument_default=argparse.SUPPRESS, add_help=False, **kwargs)
        text = "print the most common flags; all: every flag; WORD: the flags whose name or heading contains it"
        self.add_argument("-h", "--help", action=_Help, nargs="?", metavar="all|WORD", help=text)
        self._negative_number_matcher = re.compile(r"-[\d.][\d.,e+-]*$")  # -10,10 is a value, too
        self.instead = instead or {}
        accept_harmless(self)
        self._complete = complete
        self._common = {*common}
        self._hint = hint
        for title, flags in groups.items():
            group = self.add_argument_group(title)
            for flag in flags:
                names = [f"--{name}" for name in (flag.name, *flag.aliases)]
                group.add_argument(*names, **flag.options())

    def search_help(self, word: str | None) -> str:
        """Return the help about a word in names and headings of flags; about the most common flags if None."""
        if word == "all":
            return self.format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, [])
        found = False
        for group in self._action_groups:
            flags = []
            for flag in group._group_actions:
                if flag.help == argparse.SUPPRESS:
                    continue
                shown = flag.dest in self._common
                if word is not None:
                    names = " ".join([*flag.option_strings, group.title or ""]).lower()
                    shown = word.lower().replace("-", "_") in names
                if shown:
                    flags.append(flag)
            found = found or bool(flags)
            formatter.start_section(group.title)
            formatter.add_arguments(flags)
            formatter.end_section()
        if not found:
            self.error(f"--help {word}: expected all, or a part of the name or heading of a flag")
        if word is None:
            formatter.add_text(self.description)
            formatter.add_text("These are the most common flags. --help all lists every flag, --help gamma one flag.")
        return formatter.format_help()

    def given(self, argv: Sequence[str]) -> dict[str, Any]:
        """Return the flags in ``argv`` and their values."""
        words = add_second_dash(list(map(use_underscores, argv)), self._option_string_actions)
        if self._get_positional_actions():
            words = complete_booleans(words, self._option_string_actions)
        assigned: list[str] = []
        if self._complete:
            words, assigned = self._divide(words)
        known, unknown = self.parse_known_args(words)
        found = vars(known)
        if unknown:
            name, _, value = unknown[0].partition("=")
            plain = name.lstrip("-")
            hint = ""
            if self._hint and name.startswith("--"):
                following = [*unknown[1:], ""][0]
                if not value and not following.startswith("-"):
                    value = following
                hint = self._hint(plain, value, found)
            self.reject(name, hint)
        if self._complete and (assigned or "config" in found):
            return self._complete(found, assigned)
        return found

    def _divide(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return flags with their values, and words ``key=value``, separately."""
        flags: list[str] = []
        assigned: list[str] = []
        may_be_own = False  # whether the previous flag accepts a class of a user
        takes = ""  # how many words ``key=value`` the previous flag takes: one, + or none
        for word in words:
            if takes or not ASSIGNED.match(word):
                flags.append(word)
            else:
                assigned.append(word)
            action = self._option_string_actions.get(word)
            if action is not None and action.nargs is None:
                takes = "one"
            elif (action is not None and action.metavar in (PAIR, PART)) or (may_be_own and ":" in word):
                takes = "+"
            elif takes == "one" or word.startswith("-"):
                takes = ""
            may_be_own = action is not None and OWN_CLASS in str(action.metavar)
        return flags, assigned


class RaisingFlagParser(FlagParser):
    """Raises errors instead of ending the program."""

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`."""
        raise UsageError(message)


_ONE_DASH = re.compile(r"-([A-Za-z]\w*)((?:=.*)?)", re.DOTALL)


def add_second_dash(words: Sequence[str], known: Mapping[str, object]) -> list[str]:
    """Return words with the original one-dash names replaced, such as ``-knn`` and ``-trainer``."""
    short = read_programs()["original"]["short"]
    found = []
    for word in words:
        match = _ONE_DASH.fullmatch(word)
        if match and (match[1] in short or (len(match[1]) > 1 and f"--{match[1]}" in known)):
            word = f"--{short.get(match[1], match[1])}{match[2]}"
        found.append(word)
    return found


def complete_booleans(words: Sequence[str], known: Mapping[str, argparse.Action]) -> list[str]:
    """Return words with ``=true`` appended to boolean flags that a positional argument follows."""
    found = []
    for word, following in zip(words, [*words[1:], "-"], strict=False):
        action = known.get(word)
        if action is not None and isinstance(action.type, Boolean) and not following.startswith("-"):
            try:
                action.type(following)
            except argparse.ArgumentTypeError:
                word = f"{word}=true"
        found.append(word)
    return found


def has_flag(words: Iterable[str], flag: str) -> bool:
    """Return whether words contain a flag, with its value in the same or in the next word."""
    return any(word.partition("=")[0] == flag for word in words)


def use_underscores(word: str) -> str:
    """Return a flag's name with ``_`` between its words; other words unchanged."""
    name, equals, value = word.partition("=")
    if not name.startswith("--") or len(name) == 2:
        return word
    return "--" + name[2:].replace("-", "_") + equals + value
