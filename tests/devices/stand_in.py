"""A device that stands in for a graphics card where there is none: `torch.device("card")`.

Its tensors hold their numbers in the processor's memory, and PyTorch treats them as those of another device. What a
card refuses it refuses, too: an operation on tensors of both devices. What would wait for a card is counted.
PyTorch's backend in Python is meant for such tests; it is experimental, which is why only tests use it.
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
"""Operations that bring numbers from one device to another."""
INDEXED = {"index", "index_put", "index_put_", "_unsafe_index"}
"""Operations whose indices may be the processor's: a card brings them over."""
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "unique", "_unique2"}
"""Operations whose results, or whose shapes, the processor has to know: it waits for the card."""
aten = torch.ops.aten
RESIZING = (aten.arange.default, aten.arange.start, aten.arange.start_step, aten.randperm.default)
"""Operations that PyTorch composes of one that resizes its result, which tensors like these cannot follow."""
waits: Counter[str] = Counter()
"""How often each of them was called, copies to the processor among them."""


class CardTensor(torch.Tensor):
    """A tensor on the stand-in.

    Attributes:
        held: Its numbers.
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
    """Run an operation on what its arguments hold."""
    name = operation._schema.name.partition("::")[2]
    if name not in CROSSING:
        refuse_mixed(name, tensors_of(args[:1] if name in INDEXED else (args, kwargs)))
    to = kwargs.get("device")
    arguments = {key: HOST if key == "device" else value for key, value in kwargs.items()}
    found = operation(*tree_map(held, args), **tree_map(held, arguments))
    leaves = name == "_to_copy" and to is not None and torch.device(to).type == HOST.type
    if leaves or (name == "copy_" and not isinstance(args[0], CardTensor)):
        waits["copy to the processor"] += 1
    elif name in WAITING or (name in INDEXED and any(each.dtype is torch.bool for each in tensors_of(args[1]))):
        waits[name] += 1
    return found if leaves else as_given(operation, args, kwargs, found)


def tensors_of(values: Any) -> list[torch.Tensor]:
    """Return the tensors in lists, dicts and tuples of anything."""
    return [value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor)]


def held(value: Any) -> Any:
    """Return what a tensor of the stand-in holds, and anything else as it is."""
    return value.held if isinstance(value, CardTensor) else value


def refuse_mixed(name: str, tensors: list[torch.Tensor]) -> None:
    """Raise as a card does where tensors of both devices meet; the processor's scalars may."""
    strangers = [value for value in tensors if not isinstance(value, CardTensor) and value.ndim]
    if strangers and any(isinstance(value, CardTensor) for value in tensors):
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, found {NAME} and cpu")


def as_given(operation: Any, args: Any, kwargs: Any, found: Any) -> Any:
    """Return results as tensors of the stand-in, and arguments that were changed as themselves."""
    given = {id(held(value)): value for value in tensors_of((args, kwargs))}

    def wrapped(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in given:
            return CardTensor(value)
        changed = given[id(value)]
        return changed if changed.shape == value.shape else CardTensor(value)  # `unsqueeze_` and its like

    return tree_map(wrapped, found)


def made_on_host(make: Any) -> Any:
    """Return `torch.tensor` or its like for the stand-in, too: PyTorch's own does not find a backend in Python."""

    def made(data: Any, **kwargs: Any) -> torch.Tensor:
        device = kwargs.get("device")
        if device is None or torch.device(device).type != NAME or isinstance(data, CardTensor):
            return make(data, **kwargs)
        return make(data, **kwargs | {"device": HOST}).to(device)

    return made


def begin() -> None:
    """Make the device known to PyTorch, once in a process."""
    if hasattr(torch, NAME):
        return
    backend_registration._setup_privateuseone_for_python_backend(NAME)
    libraries = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    libraries[0].fallback(run, "PrivateUse1")
    for operation in RESIZING:
        libraries[1].impl(operation, functools.partial(run, operation), "PrivateUse1")
    begin.libraries = libraries  # what they registered is gone with them
