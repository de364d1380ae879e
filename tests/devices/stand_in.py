"""A device that stands in for a GPU on machines without one: `torch.device("card")`.

Its tensors store their numbers in main memory, and PyTorch treats them as tensors of another device. Like a GPU, it
rejects operations on tensors of both devices. Operations that would wait for a GPU are counted. PyTorch's backend in
Python is meant for such tests; it is experimental, so only tests use it.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np
import torch
from torch.utils import backend_registration
from torch.utils._pytree import tree_flatten, tree_map

NAME = "card"
AVAILABLE = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
"""Whether this PyTorch has backends in Python; 2.9 and older have none."""
HOST = torch.device("cpu")
CROSSING = {"copy_", "_to_copy", "_copy_from"}
"""Operations that copy numbers from one device to another."""
INDEXED = {"index", "index_put", "index_put_", "_unsafe_index"}
"""Operations whose indices may be on the CPU; a GPU copies them."""
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "unique", "_unique2"}
"""Operations for which the CPU waits, because it requires their result or its shape."""
aten = torch.ops.aten
RESIZING = (aten.arange.default, aten.arange.start, aten.arange.start_step, aten.randperm.default)
"""Operations that PyTorch implements by resizing a result, which these tensors do not support."""
waits: Counter[str] = Counter()
"""Number of calls of each operation that waits, including copies to the CPU."""


class CardTensor(torch.Tensor):
    """A tensor on the stand-in.

    Attributes:
        held: Tensor on the CPU with its numbers.
    """

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> CardTensor:
        shape = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        made = torch.Tensor._make_wrapper_subclass(cls, held.size(), device=torch.device(NAME, 0), **shape)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(operation, *args, **(kwargs or {}))

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """Return an array; a GPU tensor requires an explicit copy."""
        if not force:
            raise TypeError(f"can't convert {NAME}:0 device type tensor to numpy")
        return self.detach().cpu().numpy()

    def tolist(self) -> Any:
        waits["tolist"] += 1
        return self.held.tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"{self.held!r} on {NAME}"


def run(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operation on the CPU tensors of its arguments."""
    name = operation._schema.name.partition("::")[2]
    if name not in CROSSING:
        refuse_mixed(name, get_tensors(args[:1] if name in INDEXED else (args, kwargs)))
    to = kwargs.get("device")
    arguments = {key: HOST if key == "device" else value for key, value in kwargs.items()}
    found = operation(*tree_map(held, args), **tree_map(held, arguments))
    leaves = name == "_to_copy" and to is not None and torch.device(to).type == HOST.type
    if leaves or (name == "copy_" and not isinstance(args[0], CardTensor)):
        waits["copy to the processor"] += 1
    elif name in WAITING or (name in INDEXED and any(each.dtype is torch.bool for each in get_tensors(args[1]))):
        waits[name] += 1
    return found if leaves else as_given(operation, args, kwargs, found)


def get_tensors(values: Any) -> list[torch.Tensor]:
    """Return all tensors in nested lists, dicts and tuples."""
    return [value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor)]


def held(value: Any) -> Any:
    """Return the CPU tensor of a tensor on the stand-in, and any other value unchanged."""
    return value.held if isinstance(value, CardTensor) else value


def refuse_mixed(name: str, tensors: list[torch.Tensor]) -> None:
    """Raise an error for tensors of both devices, except scalars on the CPU, as a GPU does."""
    strangers = [value for value in tensors if not isinstance(value, CardTensor) and value.ndim]
    if strangers and any(isinstance(value, CardTensor) for value in tensors):
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, found {NAME} and cpu")


def as_given(operation: Any, args: Any, kwargs: Any, found: Any) -> Any:
    """Return results as tensors of the stand-in; arguments that were changed in place are returned themselves."""
    given = {id(held(value)): value for value in get_tensors((args, kwargs))}

    def wrapped(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in given:
            return CardTensor(value)
        changed = given[id(value)]
        return changed if changed.shape == value.shape else CardTensor(value)  # `unsqueeze_` and similar operations

    return tree_map(wrapped, found)


def made_on_host(make: Any) -> Any:
    """Wrap `torch.tensor` or a similar function, which does not support backends in Python, for the stand-in."""

    def made(data: Any, **kwargs: Any) -> torch.Tensor:
        device = kwargs.get("device")
        if device is None or torch.device(device).type != NAME or isinstance(data, CardTensor):
            return make(data, **kwargs)
        return make(data, **kwargs | {"device": HOST}).to(device)

    return made


def begin() -> None:
    """Register the device in PyTorch, once per process."""
    if hasattr(torch, NAME):
        return
    backend_registration._setup_privateuseone_for_python_backend(NAME)
    libraries = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    libraries[0].fallback(run, "PrivateUse1")
    for operation in RESIZING:
        libraries[1].impl(operation, functools.partial(run, operation), "PrivateUse1")
    begin.libraries = libraries  # keep them: their registrations end with them
