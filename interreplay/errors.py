"""Errors that a user can cause and fix, and checks of arguments. Everything else is a bug and keeps its traceback."""

from __future__ import annotations

import contextlib
import copy
import difflib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any


class InterreplayError(Exception):
    """Base of the errors below.

    Attributes:
        exit_code: Exit status of a command: 2 if the request is invalid, 1 if a run failed.
    """

    exit_code = 2

    def lines(self) -> list[str]:
        """Return the message as commands print it: one line per reason."""
        return [" ".join(str(self).split())]


class InterreplayWarning(UserWarning):
    """A setting or file that works differently than expected. Commands print the message once."""


class NonFiniteError(InterreplayError, ValueError):
    """A column to store contains NaN or infinity.

    Attributes:
        column: Name of the column, such as ``"rewards"``.
        row: Index of the first invalid row within the added transitions.
    """

    def __init__(self, column: str, row: int, value: float, at: str | None = None):
        where = at or f"row {row} of the added transitions"
        super().__init__(f"{column} holds {value} at {where}; only finite values can be replayed")
        self.column = column
        self.row = row
        self.value = value
        self.at = at

    def __reduce__(self) -> tuple[type, tuple[str, int, float, str | None]]:
        """Return how to recreate the exception: Ray copies and pickles exceptions."""
        return type(self), (self.column, self.row, self.value, self.at)


class CheckpointError(InterreplayError):
    """A checkpoint cannot be read, is damaged, or belongs to something else."""


class UsageError(InterreplayError, ValueError):
    """An invalid request. The message is one line with the value received and what is accepted."""


class RejectedRuns(UsageError):
    """Runs of a study that cannot start.

    Args:
        reasons: Reason by number of the run.
        count: Number of runs in the study.
    """

    def __init__(self, reasons: Mapping[int, str], count: int):
        numbers: dict[str, list[int]] = {}
        for number, reason in reasons.items():
            numbers.setdefault(" ".join(reason.split()), []).append(number)
        self._lines = [f"{_named_runs(of_reason, count)}{reason}" for reason, of_reason in numbers.items()]
        super().__init__("; ".join(self._lines))

    def lines(self) -> list[str]:
        """Return one line per reason, with the numbers of the affected runs."""
        return self._lines


def _named_runs(numbers: Sequence[int], count: int) -> str:
    """Return the start of a line about some runs of a study; "" for all runs."""
    if len(numbers) == count:
        return ""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    parts = []
    for each in ranges:
        parts.append("-".join(map(str, sorted({each[0], each[-1]}))))
    plural = "s" if len(numbers) > 1 else ""
    return f"run{plural} {', '.join(parts)} of {count} cannot start: "


class PartError(UsageError, TypeError):
    """A part of a buffer returned a value that violates its contract."""


class EnvironmentFailure(InterreplayError):
    """An environment raised an error or returned values that cannot be stored.

    Attributes:
        env: Name of the environment.
        cause_text: What happened, on one line.
        at: When it happened, such as ``"env step 500"``, or None.
    """

    exit_code = 1

    def __init__(self, env: str, cause_text: str, at: str | None = None):
        when = f", at {at}" if at else ""
        super().__init__(f"the environment {env} {cause_text}{when}")
        self.env = env
        self.cause_text = cause_text
        self.at = at

    def __reduce__(self) -> tuple[type, tuple[str, str, str | None]]:
        """Return how to recreate the exception: Ray copies and pickles exceptions."""
        return type(self), (self.env, self.cause_text, self.at)


class TrainingDiverged(InterreplayError):
    """A loss or a network's weights became non-finite.

    Attributes:
        name: Name of the loss or the weights.
        value: Non-finite value.
        updates: Number of updates so far.
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
    """A remote env runner died or does not respond, and was not restarted."""

    exit_code = 1


class RunFailure(InterreplayError):
    """A run failed. The message states what was saved and how to resume."""

    exit_code = 1


def describe_error(error: BaseException) -> str:
    """Return an error's type and message on one line, or the type alone if there is no readable message.

    The cause replaces an empty message, as of some errors of RLlib.
    """
    try:
        message = " ".join(str(error).split())
    except Exception:  # raised by a user's `__str__`
        message = ""
    cause = error.__cause__ or error.__context__
    if not message and cause is not None:
        message = describe_error(cause)
    return f"{type(error).__name__}: {message}".removesuffix(": ")


def copyable(error: BaseException) -> BaseException:
    """Return `error` if Ray can copy it and its causes, else a RuntimeError with the same text and traceback.

    Exceptions are copied by calling their class with `args`, which fails for classes with more required arguments.
    """
    cause: BaseException | None = error
    while cause is not None:
        try:
            copy.copy(cause)
        except Exception:
            return RuntimeError(describe_error(error)).with_traceback(error.__traceback__)
        cause = cause.__cause__
    return error


@contextlib.contextmanager
def exits_as_errors() -> Iterator[None]:
    """Convert exceptions that would end the program, such as ``sys.exit`` in a user's code, to a RuntimeError.

    Ctrl-C and Ray's request to end a worker pass through.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or is_request_to_end(error):
            raise
        raise RuntimeError(describe_error(error)) from error


def is_request_to_end(error: BaseException) -> bool:
    """Return whether an exception is Ctrl-C or Ray's request to end a worker."""
    return isinstance(error, KeyboardInterrupt) or hasattr(error, "ray_terminate_msg")


def did_you_mean(word: str, names: Iterable[str], most: int = 1, cutoff: float = 0.5) -> str:
    """Return a suggestion for error messages: at most `most` of the accepted `names` most similar to a word, or "".

    `cutoff` is the similarity that a suggestion needs, from 0 to 1 (``difflib.get_close_matches``).
    """
    by_lower_case = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), by_lower_case, n=most, cutoff=cutoff)
    if not close:
        return ""
    return f"did you mean {' or '.join(by_lower_case[name] for name in close)}?"


def accepted_names(word: str, names: Iterable[str]) -> str:
    """Return a suggestion and the list of `names` for error messages about an unknown `word`."""
    names = list(names)
    return f"{did_you_mean(word, names)} accepted: {', '.join(names) or 'none'}".lstrip()


def check_keys(where: str, mapping: Mapping[Any, Any], accepted: Collection[str]) -> None:
    """Reject unknown keys, and suggest the most similar one; `where` begins the error message."""
    for key in mapping:
        if key not in accepted:
            raise UsageError(f"{where}: unknown {key!r}; {accepted_names(str(key), accepted)}")


def check_number(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    whole: bool = False,
    above_low: bool = False,
    below_high: bool = False,
) -> None:
    """Raise ValueError unless an argument is a finite number from `low` to `high`.

    `whole` accepts integers only; `above_low` and `below_high` reject the bounds themselves.
    """
    is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    accepted = (
        is_number
        and (isinstance(value, Integral) or math.isfinite(value))
        and (value > low or (value == low and not above_low))
        and (value < high or (value == high and not below_high))
    )
    if not accepted:
        kind = "an integer" if whole else "a number"
        bounds = _bounds(low, high, above_low, below_high)
        raise ValueError(f"{name} is {value!r}; expected {kind}{bounds}")


def _bounds(low: float, high: float, above_low: bool, below_high: bool) -> str:
    """Return the accepted range in words, such as " from 0 to 1"."""
    if high == math.inf:
        if low == -math.inf:
            return ""
        return f" above {low}" if above_low else f" of {low} or more"
    if not above_low and not below_high:
        return f" from {low} to {high}"
    start = f"above {low}" if above_low else f"from {low}"
    end = f"below {high}" if below_high else f"at most {high}"
    return f" {start} and {end}"
