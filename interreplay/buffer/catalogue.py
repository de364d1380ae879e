"""From what a configuration says (a name, a class, a factory) to a replay buffer."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from interreplay.buffer import ReplayBuffer
from interreplay.buffer.own_parts import make_parts
from interreplay.environments.own_modules import own_class
from interreplay.errors import accepted_names

Recipe = Callable[..., ReplayBuffer]
Kind = str | Recipe | ReplayBuffer


OF_PARTS = "ReplayBuffer"
"""The name of a buffer that is made of the parts that it is given, and no method of the catalogue."""
NAME = "replay_buffers"
HOME = Path(__file__).resolve().parents[2] / NAME
"""The catalogue's files, installed beside this package."""


def methods() -> dict[str, Recipe]:
    """Return the replay methods of the catalogue by name.

    `replay_buffers` builds on this package; that it is looked up here, when it is asked for, is the only import upward.
    Where somebody else's package of that name comes first on the path, our files are loaded under another name.
    """
    if _is_ours():
        catalogue = importlib.import_module(NAME)
        return {name: getattr(catalogue, name) for name in catalogue.__all__}
    modules = [_loaded(path) for path in HOME.glob("*.py") if path.name != "__init__.py"]
    found = {name: value for module in modules for name, value in vars(module).items() if _is_recipe(value, module)}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def _is_ours() -> bool:
    """Return whether an import of the catalogue's name finds this package's neighbor."""
    module = sys.modules.get(NAME)
    spec = importlib.util.find_spec(NAME) if module is None else None
    file = spec.origin if module is None and spec else getattr(module, "__file__", None)
    return not HOME.is_dir() or file is not None and Path(file).resolve().parent == HOME


def _loaded(path: Path) -> ModuleType:
    name = f"_interreplay_{NAME}_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None, path
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


def _is_recipe(value: Any, module: ModuleType) -> bool:
    return inspect.isclass(value) and issubclass(value, ReplayBuffer) and value.__module__ == module.__name__


def resolve(kind: Kind) -> Recipe:
    """Return the recipe that `kind` means: a name of the catalogue, ``module:Class``, or a class or factory as it is.

    Raises:
        ValueError: When the name is unknown, with the nearest valid one, or `kind` is something else.
    """
    if isinstance(kind, str):
        if ":" in kind or kind == OF_PARTS:
            return own_class(kind, ReplayBuffer, "buffer") if ":" in kind else ReplayBuffer
        catalogue = methods()
        if kind not in catalogue:
            raise ValueError(f"there is no replay buffer {kind!r}; {accepted_names(kind, catalogue)}")
        return catalogue[kind]
    if callable(kind):
        return kind
    raise ValueError(f"the replay buffer is {kind!r}; expected a name, a class or a factory")


def check_arguments(recipe: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that `recipe` does not take.

    Raises:
        ValueError: Naming the unknown argument, the nearest valid one and all valid ones.
    """
    parameters = inspect.signature(recipe).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    valid = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for name in arguments:
        if name not in valid:
            title = getattr(recipe, "__name__", str(recipe))
            raise ValueError(f"{title} takes no argument {name!r}; {accepted_names(name, valid)}")


def make_buffer(kind: Kind, defaults: Mapping[str, Any] | None = None, **arguments: Any) -> ReplayBuffer:
    """Return a replay buffer from a name, a class or a factory with its arguments; a ready one is returned as it is.

    Args:
        kind: What to make.
        defaults: Arguments that are passed where the recipe takes them and they are not given.
        **arguments: Arguments of the recipe; parts also by name, as `make_parts` reads them.

    Raises:
        ValueError: When the name or an argument is unknown.
    """
    if isinstance(kind, ReplayBuffer):
        if arguments:
            raise ValueError(f"a ready buffer takes no arguments; got {sorted(arguments)}")
        return kind
    recipe = resolve(kind)
    check_arguments(recipe, arguments)
    taken = inspect.signature(recipe).parameters
    return recipe(**{k: v for k, v in (defaults or {}).items() if k in taken} | make_parts(arguments))
