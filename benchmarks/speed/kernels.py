"""Cost of layout and type of convolutions, and of denormal numbers in Adam: ``python -m benchmarks.speed.kernels``.

One thread. Convolutions: a forward and backward pass of 32 images through the layers of Mnih et al. 2015. Adam: a step
of the 4,610 parameters of CartPole's network, with gradients of 0 and decayed moments.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.measure import interleaved, single_thread, table
from interreplay.learning.networks.convolutions import BODIES, ConvolutionBody
from interreplay.learning.networks.optimizers import FlatAdam

SHAPE = (4, 84, 84)
IMAGES = 32
PARAMETERS = 4_610
REPEATS = 21
PASSES = 3
STEPS = 50


def passes(body: ConvolutionBody, images: Tensor) -> Callable[[], None]:
    """Return a function that makes `PASSES` forward and backward passes."""

    def run() -> None:
        for _ in range(PASSES):
            body(images).sum().backward()

    return run


def first_channels(body: ConvolutionBody) -> nn.Module:
    """Return the layers of a body, with weights in PyTorch's default memory format."""
    nn.utils.convert_conv2d_weight_memory_format(body.layers, torch.contiguous_format)
    return body.layers


def steps(moment: float, flush: bool) -> Callable[[], None]:
    """Return a function that makes `STEPS` steps of Adam with gradients of 0, from moments of the size `moment`."""
    parameter = nn.Parameter(torch.randn(PARAMETERS))
    adam = FlatAdam([parameter], 1e-3)
    adam.apply()

    def run() -> None:
        torch.set_flush_denormal(flush)
        for name in ("exp_avg", "exp_avg_sq"):
            adam.state[parameter][name].fill_(moment)
        for _ in range(STEPS):
            adam.apply()
        torch.set_flush_denormal(False)

    return run


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    single_thread()
    images = torch.randint(0, 256, (IMAGES, *SHAPE), dtype=torch.uint8)
    plain, last, narrow = (ConvolutionBody(SHAPE, BODIES["nature"]) for _ in range(3))
    layers = first_channels(plain)
    narrow.conv_dtype = torch.bfloat16

    def first() -> None:
        for _ in range(PASSES):
            layers(images.float() / 255.0).sum().backward()

    found = {"channels first": first, "channels last": passes(last, images), "bfloat16": passes(narrow, images)}
    measured = interleaved(found, REPEATS, clock=time.process_time)
    rows = [[name, f"{np.median(seconds) / PASSES * 1e3:.1f} ms"] for name, seconds in measured.items()]
    adam = {
        "normal moments": steps(1e-3, False),
        "denormal": steps(1e-39, False),
        "denormal, flushed": steps(1e-39, True),
    }
    measured = interleaved(adam, REPEATS, clock=time.process_time)
    rows += [[f"Adam, {name}", f"{np.median(seconds) / STEPS * 1e6:.0f} µs"] for name, seconds in measured.items()]
    print(table(["", "median"], rows))


if __name__ == "__main__":
    main()
