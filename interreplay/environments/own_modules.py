"""Users' modules with environments, wrappers or parts of a buffer, installed or in the current folder."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from interreplay.errors import UsageError, accepted_names, describe_error, did_you_mean, exits_as_errors

# This module imports neither PyTorch nor Gymnasium: `search_last` runs before a Ray worker imports them.
LAST = "INTERREPLAY_CURRENT_FOLDER_LAST"
"""Environment variable with which our commands request `search_last` in Ray's workers."""


def search_current_folder() -> None:
    """Allow imports from the current folder, after all other folders."""
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())


def search_last() -> None:
    """Move the current folder from the first to the last place in `sys.path` in a Ray worker of our commands."""
    if LAST in os.environ and Path(sys.argv[0]).name == "default_worker.py":
        for path in ("", os.getcwd()):
            while path in sys.path:
                sys.path.remove(path)
        sys.path.append(os.getcwd())


def import_user_module(module: str, subject: str, expected: str) -> ModuleType:
    """Import a user's module.

    Args:
        module: Name of the module.
        subject: Beginning of error messages: what the user requested, such as ``environment 'my_envs:Env-v0'``.
        expected: An example of a valid value, for error messages.

    Raises:
        UsageError: The module does not exist, is part of Python, or cannot be imported.
    """
    if "/" in module or not all(module.split(".")):
        raise UsageError(f"{subject}: {module!r} is not the name of a module; expected a name such as {expected}")
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise UsageError(f"{subject} names a module of the standard library; expected a name such as {expected}")
    check_outside_of_runs(module, subject)
    search_current_folder()
    try:
        with exits_as_errors():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise UsageError(f"{subject}: {module} imports {error.name!r}, which is not installed") from None
        raise UsageError(
            f"{subject}: there is no module {error.name!r} to import, neither installed nor in the current "
            f"folder, {os.getcwd()}; PYTHONPATH adds other folders"
        ) from None
    except Exception as error:
        raise UsageError(f"{subject}: {module} cannot be imported: {locate_error(error)}") from error


def check_outside_of_runs(module: str, subject: str) -> None:
    """Reject a module within the folder of a run, of a checkpoint or of a study, which may come from elsewhere.

    A checkpoint could otherwise name code that was delivered with it.
    """
    folder = Path.cwd()
    for part in module.split("."):
        folder = folder / part
        patterns = ["checkpoint.json", "*/checkpoint.json"]
        if (folder / "study.yaml").exists():
            patterns.append("*/*/checkpoint.json")
        if any(next(folder.glob(pattern), None) for pattern in patterns):
            raise UsageError(f"{subject}: {folder} is the folder of a run, from which no code is imported")


def import_user_class(reference: str, base: type | tuple[type, ...], what: str) -> Any:
    """Return the class that ``module:Class`` names.

    Args:
        reference: ``module:Class``.
        base: The required base class, or several accepted ones. No other class is ever called, even if a checkpoint
            names it.
        what: Beginning of error messages: the role of the class.

    Raises:
        UsageError: The module or the class does not exist, or the class has another base.
    """
    module, _, name = reference.rpartition(":")
    accepted = base if isinstance(base, tuple) else (base,)
    example = f"my_module:My{accepted[0].__name__}"
    if not module:
        raise UsageError(f"{what} {reference!r} has no module; expected a name such as {example}")
    bases = " or ".join(each.__name__ for each in accepted)
    loaded = import_user_module(module, f"{what} {reference!r}", example)
    found = getattr(loaded, name, None)  # also calls a module's __getattr__
    if inspect.isclass(found) and issubclass(found, base):
        return found
    fitting = []
    for key, value in vars(loaded).items():
        if inspect.isclass(value) and issubclass(value, base) and value.__module__ == module:
            fitting.append(key)
    listed = f"{module} defines no subclass of {bases}"
    if fitting:
        listed = f"{did_you_mean(name, fitting)} accepted: {', '.join(fitting)}".lstrip()
    reason = f"{module} has no {name!r}"
    if found is not None:
        reason = f"{name} is not a subclass of {bases}"
    raise UsageError(f"{what} {reference!r}: {reason}; {listed}")


def is_users_class(found: type) -> bool:
    """Return whether a class is defined outside this project."""
    return found.__module__.partition(".")[0] not in ("interreplay", "replay_buffers")


def make_object(
    reference: str | Mapping[str, Any], known: Mapping[str, type], base: type, what: str, *given: Any
) -> Any:
    """Return an object of a class of this package or of a user.

    Args:
        reference: The name of the class, or a mapping such as ``{"type": "my_module:MyLoss", "scale": 0.5}``.
        known: Classes of this package by name.
        base: Required base class of a user's class.
        what: Beginning of error messages: the role of the object.
        *given: First arguments of the class, which `reference` does not contain.

    Raises:
        ValueError: The class or an argument is unknown, or the class rejects an argument.
    """
    arguments = {"type": reference} if isinstance(reference, str) else dict(reference)
    name = str(arguments.pop("type"))
    if ":" in name:
        kind = import_user_class(name, base, what)
    elif name in known:
        kind = known[name]
    else:
        raise ValueError(f"there is no {what} {name!r}; {accepted_names(name, list(known))}, or my_module:MyClass")
    try:
        return kind(*given, **arguments)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} {name}: {error}") from error


def check_arguments(what: str, kind: Any, given: Iterable[str], leave_out: Collection[str] = ()) -> None:
    """Reject arguments that a class does not accept; `what` begins the error message.

    The caller itself passes the parameters in `leave_out`.
    """
    names = []
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            return
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.name not in leave_out:
            names.append(parameter.name)
    for name in given:
        if name not in names:
            raise UsageError(f"{what} takes no argument {name!r}; {accepted_names(name, names)}")


def locate_error(error: BaseException) -> str:
    """Return an error with the file and line of a user's code that raised it."""
    while isinstance(error.__cause__, BaseException) and not isinstance(error.__cause__, Exception):
        error = error.__cause__  # the exit that `exits_as_errors` replaced
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{describe_error(error)} ({place.filename}, line {place.lineno})"
