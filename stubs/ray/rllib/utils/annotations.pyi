"""Types of RLlib's decorators; without them, mypy would treat every decorated method as Any."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

def override(parent_cls: type) -> Callable[[F], F]: ...
