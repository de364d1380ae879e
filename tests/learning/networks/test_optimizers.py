"""Adam in operations that PyTorch compiles takes the steps of the fused kernel."""

import pytest
import torch

from interreplay.learning.networks.optimizers import FastAdam, FastAdamW


@pytest.mark.parametrize(("kind", "decay"), [(FastAdam, 0.0), (FastAdam, 0.1), (FastAdamW, 0.1)])
def test_adam_of_parts_equals_the_fused_kernel(kind, decay, monkeypatch):
    torch.manual_seed(0)
    first = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(5))]
    second = [torch.nn.Parameter(parameter.detach().clone()) for parameter in first]
    fused, parts = kind(first, 0.01, weight_decay=decay), kind(second, 0.01, weight_decay=decay)
    parts.compile(lambda function, device: function)
    monkeypatch.setattr(parts, "learning_rate", lambda: torch.tensor(0.01))  # as on a GPU
    for _ in range(20):
        for one, other in zip(first, second, strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        fused.apply()
        parts.apply()
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
