"""Random numbers of the CPU on every device, so that results on two devices can be compared."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class HostGenerator(torch.Generator):
    """A random generator of the CPU that reports another device.

    Args:
        device: Device that it reports.
        seed: Seed of the numbers.
    """

    def __new__(cls, device: torch.device, seed: int) -> HostGenerator:
        made = super().__new__(cls)
        made.output = device
        made.manual_seed(seed)
        return made

    @property
    def device(self) -> torch.device:
        return self.output


class Generators(torch.Generator):
    """Replacement of `torch.Generator` that creates a `HostGenerator` for devices other than the CPU."""

    def __new__(cls, device: torch.device | str = "cpu") -> Any:
        device = torch.device(device)
        return torch._C.Generator() if device.type == "cpu" else HostGenerator(device, 0)


class SameDraws(TorchFunctionMode):
    """Draw with a `HostGenerator` on the CPU and move the numbers to its device."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        generator = kwargs.get("generator")
        if not isinstance(generator, HostGenerator):
            return function(*args, **kwargs)
        if function.__name__.endswith("_"):
            values, *rest = args
            return values.copy_(function(torch.empty_like(values, device="cpu"), *rest, **kwargs))
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        given = [value.cpu() if isinstance(value, Tensor) else value for value in args]
        return function(*given, **kwargs).to(generator.device)
