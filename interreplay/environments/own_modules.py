"""Modules of a user's own by name, in the current folder or installed: environments, wrappers, parts of a buffer."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator
from types import ModuleType
from typing import Any

import torch

from interreplay.environments.current_folder import search_here
from interreplay.errors import UsageError, accepted_names, did_you_mean, exits_as_errors, in_words


def import_own(module: str, asked: str, expected: str) -> ModuleType:
    """Return a module of a user's own.

    Args:
        module: Its name.
        asked: What it was named for, the beginning of messages: ``environment 'my_envs:Env-v0'``.
        expected: What `module` should be, with an example.

    Raises:
        UsageError: There is none, it is of Python's own, or it cannot be imported.
    """
    if "/" in module or not all(module.split(".")):
        raise UsageError(f"{asked}: {module!r} is not the name of a module; expected such as {expected}")
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise UsageError(f"{asked} names a module of Python's own; expected such as {expected}")
    search_here()
    try:
        with exits_as_errors(), unchanged_default_dtype():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise UsageError(f"{asked}: {module} imports {error.name!r}, which is not installed") from None
        raise UsageError(
            f"{asked}: there is no module {error.name!r} to import, neither installed nor in the current "
            f"folder, {os.getcwd()}; PYTHONPATH adds other folders"
        ) from None
    except Exception as error:
        raise UsageError(f"{asked}: {module} cannot be imported: {described(error)}") from error


def own_class(asked: str, base: type | tuple[type, ...], what: str) -> Any:
    """Return the class that ``module:Class`` names.

    Args:
        asked: The name.
        base: The class, or one of the classes, that it must be derived from: nothing else is ever called, whatever a
            checkpoint names.
        what: What it is to be, the beginning of messages.

    Raises:
        UsageError: There is no such module, or no such class in it.
    """
    module, _, name = asked.rpartition(":")
    bases = " or ".join(one.__name__ for one in (base if isinstance(base, tuple) else (base,)))
    example = bases.partition(" ")[0]
    found = vars(import_own(module, f"{what} {asked!r}", f"my_module:My{example}")).get(name)
    if found is None:  # also what a module makes when it is asked for
        found = getattr(sys.modules[module], name, None)
    if inspect.isclass(found) and issubclass(found, base):
        return found
    fitting = [key for key, value in vars(sys.modules[module]).items() if _is_own(value, base, module)]
    listed = f"{did_you_mean(name, fitting)} accepted: {', '.join(fitting) or 'none that is there'}".lstrip()
    reason = f"{module} has no {name!r}" if found is None else f"{name} is no subclass of {bases}"
    raise UsageError(f"{what} {asked!r}: {reason}; {listed}")


def _is_own(value: Any, base: type | tuple[type, ...], module: str) -> bool:
    return inspect.isclass(value) and issubclass(value, base) and value.__module__ == module


def check_arguments(what: str, kind: Any, given: Iterable[str], leave_out: Collection[str] = ()) -> None:
    """Refuse arguments that a class does not take.

    Args:
        what: The beginning of the message.
        kind: The class.
        given: Names of the arguments.
        leave_out: Names that are somebody else's to give.

    Raises:
        UsageError: Naming the first.
    """
    parameters = list(inspect.signature(kind).parameters.values())
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return
    names = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    names = [name for name in names if name not in leave_out]
    for name in given:
        if name not in names:
            raise UsageError(f"{what} takes no argument {name!r}; {accepted_names(name, names)}")


@contextlib.contextmanager
def unchanged_default_dtype() -> Iterator[None]:
    """Refuse a user's code that changes torch's default dtype inside the block, after restoring it.

    Raises:
        ValueError: The dtype has changed.
    """
    before = torch.get_default_dtype()
    yield
    found = torch.get_default_dtype()
    if found is not before:
        torch.set_default_dtype(before)
        raise ValueError(f"torch's default dtype was set to {found}; expected that it stays {before}")


def described(error: BaseException) -> str:
    """Return an error with the place in a user's code that raised it."""
    while isinstance(error.__cause__, BaseException) and not isinstance(error.__cause__, Exception):
        error = error.__cause__  # what `exits_as_errors` replaced
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{in_words(error)} ({place.filename}, line {place.lineno})"
