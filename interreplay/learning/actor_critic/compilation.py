"""Compilation of functions of tensors by PyTorch, which needs a C++ compiler."""

from __future__ import annotations

import importlib
import inspect
import os
import shutil
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from interreplay.errors import UsageError

COMPILERS = ("g++", "clang++", "cl")
"""Compilers of which PyTorch needs one; the environment variable ``CXX`` can name another."""

MOST_PROGRAMS = 1_000
"""Maximum number of programs of one function, one for each algorithm in the process and each form of batch."""


def compiled(function: Callable[..., Any], device: torch.device, constant: bool = False) -> Callable[..., Any]:
    """Return a compiled function, with one program per shape of its arguments; results are equal up to rounding.

    The first call takes half a minute, or some seconds if PyTorch finds the program in its cache.

    Args:
        function: A function of tensors without random numbers. It can compute gradients.
        device: Device of the tensors.
        constant: Whether all attributes that a method reads stay the same. Otherwise, each call checks them, and a
            changed one is followed by another compilation.

    Raises:
        UsageError: `check_compiler` fails.
    """
    check_compiler()
    config: Any = importlib.import_module("torch._dynamo.config")
    config.trace_autograd_ops = True
    config.recompile_limit = config.accumulated_recompile_limit = MOST_PROGRAMS
    options: dict[str, Any] = {}
    if constant:
        options["guard_filter_fn"] = select_argument_conditions
    if device.type == "cpu":  # on a GPU, CUDA graphs leave out the Python between kernels
        options["cpp_wrapper"] = True
    compile_function: Any = torch.compile  # its annotations lack `isolate_recompiles`
    return compile_function(function, fullgraph=True, dynamic=False, options=options, isolate_recompiles=True)


def check_compiler() -> None:
    """Check that functions can be compiled on this machine.

    Raises:
        UsageError: PyTorch is too old, there is no C++ compiler, or Python's headers are missing.
    """
    if "isolate_recompiles" not in inspect.signature(torch.compile).parameters:
        raise UsageError(f"torch_compile requires PyTorch 2.13 or newer; PyTorch {torch.__version__} is installed")
    if not shutil.which(os.environ.get("CXX", "")) and not any(map(shutil.which, COMPILERS)):
        needs = f"torch_compile needs a C++ compiler: {', '.join(COMPILERS)}, or one that CXX names"
        raise UsageError(f"{needs}; torch_compile false trains without one")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise UsageError("torch_compile needs Python's headers, on Debian the package python3-dev")


def can_compile() -> bool:
    """Return whether functions can be compiled on this machine."""
    try:
        check_compiler()
    except UsageError:
        return False
    return True


def select_argument_conditions(conditions: Sequence[Any]) -> list[bool]:
    """Return which conditions of a program each call checks: all but those on attributes, classes and global names.

    There are some two hundred of these, which take a tenth of the time of a small update. Each compiled method has its
    own programs, so that none is used for another object.
    """
    return [not condition.name.startswith(("self", "dict(", "G[")) for condition in conditions]


def is_constant(update: Any) -> bool:
    """Return whether no attribute that the losses of an update read changes: it has no part of the user's own."""
    for part in (update, update.loss, *update.networks.modules()):
        if type(part).__module__.partition(".")[0] not in ("interreplay", "torch"):
            return False
    return True
