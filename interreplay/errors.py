"""The errors that a user can cause and mend; everything else is a bug and keeps its traceback."""

from __future__ import annotations

import contextlib
import copy
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence


class InterreplayError(Exception):
    """Base of the errors below.

    Attributes:
        exit_code: Of a command that ends with it: 2 where the user can mend what was asked for, 1 where a run failed.
    """

    exit_code = 2

    def lines(self) -> list[str]:
        """Return the message as a command prints it: one line, or one line per reason."""
        return [" ".join(str(self).split())]


class NonFiniteError(InterreplayError, ValueError):
    """A column to be stored holds NaN or infinity.

    Attributes:
        column: Name of the column, such as ``"rewards"``.
        row: Index of the first bad row within the transitions that were added.
    """

    def __init__(self, column: str, row: int, value: float, at: str | None = None):
        where = at or f"row {row} of the added transitions"
        super().__init__(f"{column} holds {value} at {where}; only finite values can be replayed")
        self.column, self.row, self.value, self.at = column, row, value, at

    def __reduce__(self) -> tuple[type, tuple[str, int, float, str | None]]:
        """Return how it is made again: Ray copies and pickles exceptions."""
        return type(self), (self.column, self.row, self.value, self.at)


class CheckpointError(InterreplayError):
    """A checkpoint cannot be read, is damaged, or belongs to something else."""


class UsageError(InterreplayError, ValueError):
    """What was asked for cannot be done; the message is one line that names the value and what would be accepted."""


class RefusedRuns(UsageError):
    """Runs of a study that cannot start.

    Args:
        reasons: Why, by the number of the run.
        count: Runs of the study.
    """

    def __init__(self, reasons: Mapping[int, str], count: int):
        numbers: dict[str, list[int]] = {}
        for number, reason in reasons.items():
            numbers.setdefault(" ".join(reason.split()), []).append(number)
        self._lines = [f"{_named_runs(of_reason, count)}{reason}" for reason, of_reason in numbers.items()]
        super().__init__("; ".join(self._lines))

    def lines(self) -> list[str]:
        """Return one line per reason, with the numbers of its runs."""
        return self._lines


def _named_runs(numbers: Sequence[int], count: int) -> str:
    """Return the start of a line about some runs of a study; "" where it is about all of them."""
    if len(numbers) == count:
        return ""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    parts = [str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in ranges]
    return f"run{'s' if len(numbers) > 1 else ''} {', '.join(parts)} of {count} cannot start: "


class PartError(UsageError, TypeError):
    """A part of a buffer returned something else than its contract states."""


class EnvironmentFailure(InterreplayError):
    """An environment raised an error, or gave what cannot be stored.

    Attributes:
        env: Name of the environment.
        cause_text: What it raised or gave, on one line.
        at: Where that was, such as ``"env step 500"``, or None.
    """

    exit_code = 1

    def __init__(self, env: str, cause_text: str, at: str | None = None):
        super().__init__(f"the environment {env} {cause_text}" + (f", at {at}" if at else ""))
        self.env, self.cause_text, self.at = env, cause_text, at

    def located(self, at: str) -> EnvironmentFailure:
        """Return this failure with its place."""
        found = type(self)(self.env, self.cause_text, at)
        found.__cause__ = self.__cause__
        return found

    def __reduce__(self) -> tuple[type, tuple[str, str, str | None]]:
        """Return how it is made again: Ray copies and pickles exceptions."""
        return type(self), (self.env, self.cause_text, self.at)


class TrainingDiverged(InterreplayError):
    """A loss or a network's weights are not finite, so nothing more can be learned.

    Attributes:
        name: Name of the loss or of the weights.
        value: Their value.
        updates: Updates so far.
    """

    exit_code = 1

    def __init__(self, name: str, value: float, updates: int):
        super().__init__(
            f"training diverged: {name} is {value} after {updates:,} updates; expected finite values (check the scale "
            "of observations and rewards, or lower the learning rate)"
        )
        self.name = name
        self.value = value
        self.updates = updates

    def __reduce__(self) -> tuple[type, tuple[str, float, int]]:
        """Return how to recreate the exception: Ray copies and pickles exceptions."""
        return type(self), (self.name, self.value, self.updates)


class RunnerLost(InterreplayError):
    """A remote env runner died or does not answer, and was not restarted."""

    exit_code = 1


class RunFailure(InterreplayError):
    """A run that failed; the message says what is kept of it and how to resume it."""

    exit_code = 1


def in_words(error: BaseException) -> str:
    """Return an error's type and message on one line; the type alone where there is no message or it cannot be read."""
    try:
        message = " ".join(str(error).split())
    except Exception:  # of a `__str__` written by a user
        message = ""
    return f"{type(error).__name__}: {message}".removesuffix(": ")


def copyable(error: BaseException) -> BaseException:
    """Return an error that Ray can copy: `error`, or its words and traceback where it or one of its causes cannot be.

    Exceptions are copied by calling their class with `args`. A class with more required arguments fails there.
    """
    cause: BaseException | None = error
    while cause is not None:
        try:
            copy.copy(cause)
        except Exception:
            return RuntimeError(in_words(error)).with_traceback(error.__traceback__)
        cause = cause.__cause__
    return error


@contextlib.contextmanager
def exits_as_errors() -> Iterator[None]:
    """Raise what would end the program, such as ``sys.exit`` in a user's code, as an error inside the block.

    Ctrl-C passes through, and so does Ray's own request to end a worker.

    Raises:
        RuntimeError: The block raised SystemExit, GeneratorExit or another exception that is not an `Exception`.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or is_request_to_end(error):
            raise
        raise RuntimeError(in_words(error)) from error


def is_request_to_end(error: BaseException) -> bool:
    """Return whether an exception is Ctrl-C, or Ray's request that a worker ends."""
    return isinstance(error, KeyboardInterrupt) or hasattr(error, "ray_terminate_msg")


def did_you_mean(word: str, names: Iterable[str], most: int = 1) -> str:
    """Return half a sentence for error messages: the names nearest to a word, "" where none is near.

    Args:
        word: What was given.
        names: What would be accepted.
        most: How many names are suggested at most.
    """
    folded = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), folded, n=most, cutoff=0.5)
    return f"did you mean {' or '.join(folded[name] for name in close)}?" if close else ""


def accepted_names(word: str, names: Iterable[str]) -> str:
    """Return half a sentence for error messages: the nearest name, and all of them.

    Args:
        word: What was given.
        names: What would be accepted.
    """
    names = list(names)
    return f"{did_you_mean(word, names)} accepted: {', '.join(names) or 'none'}".lstrip()
