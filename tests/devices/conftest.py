"""The device that is compared with the processor: `--device cuda`, or a stand-in for a card where none is named."""

from __future__ import annotations

import pytest
import torch

from tests.devices import stand_in


@pytest.fixture
def device(request, monkeypatch):
    name = request.config.getoption("--device")
    if name == stand_in.NAME:
        # Parameters stay themselves when a module is moved to a card; to the stand-in only if asked for.
        torch.__future__.set_swap_module_params_on_conversion(True)
        for made in ("tensor", "as_tensor", "asarray"):
            monkeypatch.setattr(torch, made, stand_in.made_on_host(getattr(torch, made)))
    yield torch.device(name)
    torch.__future__.set_swap_module_params_on_conversion(False)
