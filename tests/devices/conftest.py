"""The device that is compared with the CPU: `--device cuda`, or by default a stand-in for a GPU."""

import pytest
import torch

from tests.devices import stand_in


@pytest.fixture
def device(request, monkeypatch):
    name = request.config.getoption("--device")
    if name == stand_in.NAME:
        # Moving a module to a GPU keeps its parameter objects; moving it to the stand-in requires this option.
        torch.__future__.set_swap_module_params_on_conversion(True)
        for made in ("tensor", "as_tensor", "asarray"):
            monkeypatch.setattr(torch, made, stand_in.made_on_host(getattr(torch, made)))
    yield torch.device(name)
    torch.__future__.set_swap_module_params_on_conversion(False)
