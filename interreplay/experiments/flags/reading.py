"""A parser whose flags are a table."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from interreplay.errors import InterreplayError, UsageError, did_you_mean
from interreplay.experiments.flags.values import boolean
from interreplay.experiments.process import outcome
from interreplay.experiments.process.outcome import RED, colored

SCOPES = {
    "learning": "a setting that changes what is learned",
    "method": "a part of the replay method and its arguments",
    "identity": "which run it is: algorithm, environment, seed",
    "execution": "how and where it runs, what is written of it",
    "invocation": "this one start of the program, no setting of a run",
}


ASSIGNED = re.compile(r"[A-Za-z_][\w.-]*=")
"""How a word begins that says a flag and its value, such as ``gamma=0.95``."""
PAIR = "NAME=VALUE"
PART = ("MODULE:CLASS", PAIR)
"""What ``--help`` shows of flags whose words after the first are arguments."""
METAVARS = {
    "buffer_arg": PAIR,
    "env_args": PAIR,
    "updates_per_step": "X|A,B",
    "trainer": "ALGORITHM",
    "trainers": "ALGORITHM",
    "buffer": "METHOD",
    "buffers": "METHOD",
    "env": "ENV",
    "envs": "ENV",
    "seeds": "N|N,N,...",
    "preset": "NAME|FILE",
    "config": "NAME|FILE",
    "inputs": "FILE",
    "search": "NAME=DISTRIBUTION",
    "address": "ADDRESS|auto|local",
    "output_dir": "DIR",
    "resume": "DIR",
    "wandb": "PROJECT",
    "mlflow": "[URI/]EXPERIMENT",
}
"""What ``--help`` shows in place of a value whose reader does not know it."""


@dataclass(frozen=True)
class Flag:
    """One flag of the command line.

    Attributes:
        name: Its name without dashes, words joined by ``_``; both ``--a_b`` and ``--a-b`` are understood.
        type: Turns the text into the value; raises ``argparse.ArgumentTypeError``.
        default: The value when the flag is not given.
        help: What it does, as printed by ``--help``.
        aliases: Further names.
        many: Whether it takes several words, handed to ``type`` joined by spaces.
        repeat: Whether it may be given several times, collecting a list.
        scope: What it is about, see `SCOPES`.
        changeable: Whether a resumed run may be given another value.
        in_study: What says it in a study instead of a setting, "" for nothing; None where a setting does.
    """

    name: str
    type: Callable[[str], Any]
    default: Any
    help: str
    aliases: tuple[str, ...] = ()
    many: bool = False
    repeat: bool = False
    scope: str = "learning"
    changeable: bool = False
    in_study: str | None = None

    def __post_init__(self) -> None:
        assert self.scope in SCOPES, self.scope


def scoped(scope: str, flags: Sequence[Flag]) -> tuple[Flag, ...]:
    """Return the same flags with another scope."""
    return tuple(replace(flag, scope=scope) for flag in flags)


class _Joined(argparse.Action):
    """Hands all words of a flag to its type at once, so that ``1 20`` and ``[1, 20]`` are read alike.

    A flag that may be repeated collects a list; of one whose words are arguments by name, all are kept.
    """

    def __init__(self, *args: Any, convert: Callable[[str], Any], repeat: bool = False, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._convert, self._repeat = convert, repeat

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        try:
            value = self._convert(" ".join(values))
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from None
        before = getattr(namespace, self.dest, None)
        if self._repeat:
            value = [*(before or ()), value]
        elif self.metavar == PAIR and isinstance(before, dict):
            value = {**before, **value}
        setattr(namespace, self.dest, value)


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line, and which suggests flags in place of unknown ones.

    Attributes:
        all_flags: The flag that prints all others.
    """

    all_flags = "--help"

    def error(self, message: str) -> NoReturn:
        """End the program with exit code 2 and one line."""
        line = f"{self.prog}: error: {' '.join(message.split())}"
        self.exit(2, f"{colored(line, RED, sys.stderr)}\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the values of all flags; an unknown one ends the program."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(self.unknown(unknown[0].split("=")[0]))
        return found

    def unknown(self, word: str) -> str:
        """Return the error message for a word that is not a flag."""
        options = [option for parser in self._parsers() for option in parser._option_string_actions]
        hint = did_you_mean(word, [option for option in options if option.startswith("--")])
        return self._unknown_message(word, hint)

    def _unknown_message(self, word: str, hint: str) -> str:
        kind = "flag" if word.startswith("-") else "argument"
        if hint:
            hint += " " if hint.endswith("?") else "; "
        return f"unknown {kind} {word}; {hint}{self.all_flags} lists every flag"

    def _parsers(self) -> list[argparse.ArgumentParser]:
        """Return this parser and those of its subcommands."""
        subcommands = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return [self, *(parser for action in subcommands for parser in action.choices.values())]

    def run(self, act: Callable[[Any], int], argv: Sequence[str] | None, **options: Any) -> int:
        """Carry out a command with one-line errors that name flags as they were typed; return the exit code.

        Args:
            act: Takes the values of the flags and returns the exit code.
            argv: The command line without the program's name; None for this process's own.
            **options: As for `outcome.run`.
        """
        words = [underscored(word) for word in (sys.argv[1:] if argv is None else argv)]
        return outcome.run(self.prog, lambda: self._with_typed_names(act, words), **options)

    def _with_typed_names(self, act: Callable[[Any], int], words: Sequence[str]) -> int:
        given = self.read(words)
        try:
            return act(given)
        except InterreplayError as error:
            message = self.as_typed(str(error), words)
            if message == str(error):
                raise
            raise _Renamed(message, error.exit_code) from error

    def as_typed(self, message: str, words: Sequence[str]) -> str:
        """Return an error message with the names of flags that stand on the command line."""
        for word in words:
            name = word.partition("=")[0]
            action = self._action_of(name)
            if action is not None and action.option_strings[0] != name:
                message = re.sub(rf"{action.option_strings[0]}(?!\w)", name, message)
        return message

    def _action_of(self, name: str) -> argparse.Action | None:
        found = (parser._option_string_actions.get(name) for parser in self._parsers())
        return next((action for action in found if action is not None), None)

    def read(self, words: Sequence[str]) -> Any:
        """Return the values of the flags."""
        return self.parse_args(words)


class _Renamed(InterreplayError):
    """An error whose message names flags as they were typed."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


class _Help(argparse.Action):
    """Prints the flags that are used most, all flags, or those of one topic, and ends the program."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        sys.stdout.write(parser.help_on(values))
        parser.exit()


class FlagParser(OneLineParser):
    """Reads flags from tables; the result holds only the flags that were given.

    Args:
        groups: The flags by the title under which ``--help`` lists them.
        common: Names of the flags that ``--help`` prints; ``--help all`` prints all of them.
        gone: Flags that other versions had, and what to do instead.
        elsewhere: Flags that other programs have for what is done otherwise here, and how it is done.
        complete: Where there may be words ``key=value``: makes the result of the flags that were given and of these.
        **kwargs: As for ``argparse.ArgumentParser``.
    """

    def __init__(
        self,
        groups: Mapping[str, Sequence[Flag]],
        gone: Mapping[str, str] | None = None,
        elsewhere: Mapping[str, str] | None = None,
        complete: Callable[[dict[str, Any], list[str]], dict[str, Any]] | None = None,
        common: Iterable[str] = (),
        **kwargs: Any,
    ):
        super().__init__(allow_abbrev=False, argument_default=argparse.SUPPRESS, add_help=False, **kwargs)
        self._common = {*common}
        text = "print the flags that are used most; all: every flag; TOPIC: a part of a heading, or the name of a flag"
        self.add_argument("-h", "--help", action=_Help, nargs="?", metavar="all|TOPIC", help=text)
        self._negative_number_matcher = re.compile(r"-[\d.][\d.,e+-]*$")  # -10,10 is a value, too
        self._gone, self._elsewhere, self._complete = gone or {}, elsewhere or {}, complete
        for title, flags in groups.items():
            group = self.add_argument_group(title)
            for flag in flags:
                names = [f"--{name}" for name in (flag.name, *flag.aliases)]
                group.add_argument(*names, dest=flag.name, help=_help(flag), **_reading(flag))

    all_flags = "--help all"

    def help_on(self, topic: str | None) -> str:
        """Return the help about a topic.

        Args:
            topic: ``all``, a part of a heading, or the name of a flag; None for the flags that are used most.
        """
        if topic == "all":
            return self.format_help()
        groups = {group.title or "": group._group_actions for group in self._action_groups if group._group_actions}
        if topic is None:
            groups = {title: [one for one in flags if one.dest in self._common] for title, flags in groups.items()}
        else:
            name = topic.lstrip("-").replace("-", "_")
            of_title = {title: flags for title, flags in groups.items() if topic.lower() in title.lower()}
            of_name = {
                title: [one for one in flags if f"--{name}" in one.option_strings] for title, flags in groups.items()
            }
            groups = of_title or of_name
        if not any(groups.values()):
            headings = ", ".join(group.title for group in self._action_groups if group.title and group._group_actions)
            self.error(
                f"--help {topic}: expected all, the name of a flag, or a part of one of the headings: {headings}"
            )
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, [])
        if topic is None:
            formatter.add_text(self.description)
        for title, flags in groups.items():
            if flags:
                formatter.start_section(title)
                formatter.add_arguments(flags)
                formatter.end_section()
        if topic is None:
            formatter.add_text(
                "These flags are used most. --help all lists every flag, --help replay those about replay,"
                " --help gamma one flag."
            )
        return formatter.format_help()

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the flags that were given and their values."""
        return self.given(words)

    def given(self, argv: Sequence[str]) -> dict[str, Any]:
        """Return the flags in ``argv`` and their values.

        Args:
            argv: The command line without the program's name.
        """
        words = [underscored(word) for word in argv]
        words, assigned = self._divided(words) if self._complete else (words, [])
        known, unknown = self.parse_known_args(words)
        if unknown:
            self.error(self.unknown(unknown[0].split("=")[0]))
        return self._complete(vars(known), assigned) if self._complete else vars(known)

    def _divided(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the words that are flags and their values, and those that are ``key=value``."""
        flags: list[str] = []
        assigned: list[str] = []
        takes = ""  # how many words of this kind the flag before takes: one, + or none
        for word in words:
            if not ASSIGNED.match(word) or takes:
                flags.append(word)
            else:
                assigned.append(word)
            action = self._option_string_actions.get(word)
            if action is not None:
                takes = "one" if action.nargs is None else "+" if action.metavar in (PAIR, PART) else ""
            elif takes == "one" or word.startswith("-"):
                takes = ""
        return flags, assigned

    def unknown(self, word: str) -> str:
        """Return the error message for a word that is not a flag."""
        if word.startswith("--") and word[2:] in self._gone:
            return f"{word} of the original work: {self._gone[word[2:]]}"
        if hint := self._elsewhere.get(word.lstrip("-")):
            return self._unknown_message(word, hint)
        return super().unknown(word)


class RaisingFlagParser(FlagParser):
    """Raises what another parser would end the program with."""

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`."""
        raise UsageError(message)


def underscored(word: str) -> str:
    """Return a flag's name with ``_`` between its words; other words as they are."""
    name, equals, value = word.partition("=")
    return "--" + name[2:].replace("-", "_") + equals + value if name.startswith("--") and len(name) > 2 else word


def _reading(flag: Flag) -> dict[str, Any]:
    metavar = getattr(flag.type, "metavar", None) or METAVARS.get(flag.name) or flag.name.rsplit("_", 1)[-1].upper()
    if flag.type is boolean:
        return {"type": flag.type, "nargs": "?", "const": True, "metavar": "True|False"}
    if flag.many:
        how = {"convert": flag.type, "repeat": flag.repeat}
        return {"action": _Joined, "nargs": "+", **how, "metavar": metavar}
    return {"type": flag.type, "action": "append" if flag.repeat else "store", "metavar": metavar}


def _help(flag: Flag) -> str:
    plain = isinstance(flag.default, str | int | float | tuple) and flag.default != () and flag.type is not boolean
    shown = ",".join(map(str, flag.default)) if isinstance(flag.default, tuple) else flag.default
    return (f"{flag.help} (default: {shown})" if plain else flag.help).replace("%", "%%")


def program() -> str:
    """Return how this program was started, for a line that says how to start it again."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None:
        return f"python -m {spec.name}"
    return f"python {sys.argv[0]}" if sys.argv[0].endswith(".py") else sys.argv[0].rsplit("/", 1)[-1]
