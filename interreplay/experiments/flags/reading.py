"""A command-line parser whose flags are tables."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from interreplay.errors import InterreplayError, UsageError, did_you_mean
from interreplay.experiments.flags.harmless import NO_EFFECT, ONE_DASH, with_two_dashes, without_harmless
from interreplay.experiments.flags.values import boolean
from interreplay.experiments.process import outcome
from interreplay.experiments.process.outcome import RED, colored

SCOPES = {
    "learning": "a setting that changes what is learned",
    "method": "a part of the replay method and its arguments",
    "identity": "the identity of the run: algorithm, environment, seed",
    "execution": "how and where it runs, and what is written",
    "invocation": "this start of the program only, not a setting of the run",
}
ASSIGNED = re.compile(r"[A-Za-z_][\w.-]*=")
"""Beginning of a word with a flag and its value, such as ``gamma=0.95``."""
PAIR = "NAME=VALUE"
PART = ("MODULE:CLASS", PAIR)
"""Placeholders in ``--help`` of flags whose words after the first are arguments."""
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
"""Placeholders in ``--help`` of values whose reader has none."""


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
        scope: One of `SCOPES`.
        changeable: Whether a resumed run may change it.
        in_study: What sets it in a study instead of a setting, "" for nothing; None if a setting does.
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

    def help_text(self) -> str:
        """Return the text of ``--help`` with the default."""
        shown = self.default
        if isinstance(shown, tuple):
            shown = ",".join(map(str, shown))
        plain = isinstance(shown, str | int | float) and shown != "" and self.type is not boolean
        return (f"{self.help} (default: {shown})" if plain else self.help).replace("%", "%%")

    def options(self) -> dict[str, Any]:
        """Return how ``argparse`` reads it."""
        metavar = getattr(self.type, "metavar", None) or METAVARS.get(self.name) or self.name.split("_")[-1].upper()
        if self.type is boolean:
            return {"type": self.type, "nargs": "?", "const": True, "metavar": "True|False"}
        if self.many:
            return {
                "action": _Joined,
                "nargs": "+",
                "convert": self.type,
                "repeat": self.repeat,
                "metavar": metavar,
            }
        return {"type": self.type, "action": "append" if self.repeat else "store", "metavar": metavar}


def scoped(scope: str, flags: Sequence[Flag]) -> tuple[Flag, ...]:
    """Return the flags with another scope."""
    return tuple(replace(flag, scope=scope) for flag in flags)


class _Joined(argparse.Action):
    """Passes all words of a flag to its type at once, so that ``1 20`` and ``[1, 20]`` are read alike.

    A repeatable flag collects a list; arguments by name are merged.
    """

    def __init__(self, *args: Any, convert: Callable[[str], Any], repeat: bool = False, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._convert = convert
        self._repeat = repeat

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
    """A parser whose errors are one line and suggest flags in place of unknown ones.

    Attributes:
        all_flags: The flag that prints all others.
    """

    all_flags = "--help"

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and one line."""
        line = f"{self.prog}: error: {' '.join(message.split())}"
        self.exit(2, f"{colored(line, RED, sys.stderr)}\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the values of all flags; exit at an unknown one."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(self.unknown(unknown[0].split("=")[0]))
        return found

    def unknown(self, word: str) -> str:
        """Return the error message for a word that is not a flag."""
        options = [option for parser in self._parsers() for option in parser._option_string_actions]
        return self._unknown_message(word, did_you_mean(word, [o for o in options if o.startswith("--")]))

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
        """Run a command with one-line errors that name flags as they were typed; return the exit code.

        Args:
            act: Takes the values of the flags and returns the exit code.
            argv: The command line without the program's name; None for this process's own.
            **options: As for `outcome.run`.
        """
        words = [underscored(word) for word in (sys.argv[1:] if argv is None else argv)]

        def command() -> int:
            given = self.read(words)
            try:
                return act(given)
            except InterreplayError as error:
                message = self.as_typed(str(error), words)
                if message == str(error):
                    raise
                raise _RenamedError(message, error.exit_code) from error

        return outcome.run(self.prog, command, **options)

    def as_typed(self, message: str, words: Sequence[str]) -> str:
        """Return an error message with the names of flags as on the command line."""
        for word in words:
            name = word.partition("=")[0]
            for parser in self._parsers():
                action = parser._option_string_actions.get(name)
                if action is not None and action.option_strings[0] != name:
                    message = re.sub(rf"{action.option_strings[0]}(?!\w)", name, message)
        return message

    def read(self, words: Sequence[str]) -> Any:
        """Return the values of the flags."""
        return self.parse_args(words)


class _RenamedError(InterreplayError):
    """An error whose message names flags as they were typed."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


class _Help(argparse.Action):
    """Prints the most used flags, all flags, or the flags of one topic, and exits."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        sys.stdout.write(parser.help_on(values))
        parser.exit()


class FlagParser(OneLineParser):
    """Reads flags from tables; the result holds only the flags that were given.

    Args:
        groups: The flags by the title under which ``--help`` lists them.
        gone: Flags of other versions, and what to do instead.
        elsewhere: Flags of other programs, and what to do instead.
        complete: Accepts words ``key=value``: merges them and a configuration file with the flags that were given.
        common: Names of the flags that ``--help`` prints; ``--help all`` prints all of them.
        hint: Returns what to do instead of an unknown flag, given its name, its value and the flags that were
            understood; "" if it does not know.
        **kwargs: As for ``argparse.ArgumentParser``.
    """

    all_flags = "--help all"

    def __init__(
        self,
        groups: Mapping[str, Sequence[Flag]],
        gone: Mapping[str, str] | None = None,
        elsewhere: Mapping[str, str] | None = None,
        complete: Callable[[dict[str, Any], list[str]], dict[str, Any]] | None = None,
        common: Iterable[str] = (),
        hint: Callable[[str, str, Mapping[str, Any]], str] | None = None,
        **kwargs: Any,
    ):
        super().__init__(allow_abbrev=False, argument_default=argparse.SUPPRESS, add_help=False, **kwargs)
        text = "print the most used flags; all: every flag; TOPIC: a part of a heading, or the name of a flag"
        self.add_argument("-h", "--help", action=_Help, nargs="?", metavar="all|TOPIC", help=text)
        self._negative_number_matcher = re.compile(r"-[\d.][\d.,e+-]*$")  # -10,10 is a value, too
        self._gone = gone or {}
        self._elsewhere = elsewhere or {}
        self._complete = complete
        self._common = {*common}
        self._hint = hint
        for title, flags in groups.items():
            group = self.add_argument_group(title)
            for flag in flags:
                names = [f"--{name}" for name in (flag.name, *flag.aliases)]
                group.add_argument(*names, dest=flag.name, help=flag.help_text(), **flag.options())

    def help_on(self, topic: str | None) -> str:
        """Return the help about a topic.

        Args:
            topic: ``all``, a part of a heading, or the name of a flag; None for the most used flags.
        """
        if topic == "all":
            return self.format_help()
        groups = {group.title or "": group._group_actions for group in self._action_groups if group._group_actions}
        headings = ", ".join(title for title in groups if title)
        if topic is None:
            chosen = {title: [flag for flag in flags if flag.dest in self._common] for title, flags in groups.items()}
        else:
            option = f"--{topic.lstrip('-').replace('-', '_')}"
            chosen = {title: flags for title, flags in groups.items() if topic.lower() in title.lower()}
            if not chosen:
                for title, flags in groups.items():
                    chosen[title] = [flag for flag in flags if option in flag.option_strings]
        if not any(chosen.values()):
            self.error(
                f"--help {topic}: expected all, the name of a flag, or a part of one of the headings: {headings}"
            )
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, [])
        if topic is None:
            formatter.add_text(self.description)
        for title, flags in chosen.items():
            if flags:
                formatter.start_section(title)
                formatter.add_arguments(flags)
                formatter.end_section()
        if topic is None:
            formatter.add_text(
                "These are the most used flags. --help all lists every flag, --help replay those about replay,"
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
        original = [word for word in words if word.partition("=")[0] in NO_EFFECT or ONE_DASH.match(word)]
        if self._gone and original:
            words, notes = without_harmless(with_two_dashes(words, self._option_string_actions))
            sys.stdout.write("".join(f"{note}\n" for note in notes))
        assigned: list[str] = []
        if self._complete:
            words, assigned = self._divided(words)
        known, unknown = self.parse_known_args(words)
        found = vars(known)
        if unknown:
            name, _, value = unknown[0].partition("=")
            following = unknown[1] if len(unknown) > 1 and not unknown[1].startswith("-") else ""
            hint = ""
            if self._hint and name.startswith("--") and name[2:] not in {**self._gone, **self._elsewhere}:
                hint = self._hint(name[2:], value or following, found)
            self.error(self._unknown_message(name, hint) if hint else self.unknown(name))
        if self._complete and (assigned or "config" in found):
            return self._complete(found, assigned)
        return found

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
            if action is not None and action.nargs is None:
                takes = "one"
            elif action is not None:
                takes = "+" if action.metavar in (PAIR, PART) else ""
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
    """Raises errors instead of ending the program."""

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`."""
        raise UsageError(message)


def underscored(word: str) -> str:
    """Return a flag's name with ``_`` between its words; other words unchanged."""
    name, equals, value = word.partition("=")
    if not name.startswith("--") or len(name) == 2:
        return word
    return "--" + name[2:].replace("-", "_") + equals + value


def program() -> str:
    """Return how this program was started, for a line about how to start it again."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None:
        return f"python -m {spec.name}"
    return f"python {sys.argv[0]}" if sys.argv[0].endswith(".py") else sys.argv[0].rsplit("/", 1)[-1]
