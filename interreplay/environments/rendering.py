"""Rendering of MuJoCo without a display: EGL, or else OSMesa.

Gymnasium and dm_control read ``MUJOCO_GL`` at import or at the first rendering and use a display if it is not set.
RLlib imports dm_control if it is installed, which then warns that there is no display.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

VARIABLE = "MUJOCO_GL"
LIBRARIES = {"egl": ("libEGL.so.1", "libEGL.so"), "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so")}


def has_screen() -> bool:
    """Return whether environment variables indicate a display."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def choose_backend(tested: bool = False) -> str:
    """Set ``MUJOCO_GL`` if it is not set and there is no display.

    Args:
        tested: Prefer a backend that works in a test process. MuJoCo must not be imported yet.

    Returns:
        Its value: ``egl``, ``osmesa``, ``disabled`` if neither is installed, or ``""`` for the display.
    """
    if not has_screen():
        for name in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):  # both are read by pygame, which renders classic control
            os.environ.setdefault(name, "dummy")
        if not os.environ.get(VARIABLE):
            installed = filter(_loads, LIBRARIES)
            first = next(installed, "disabled")
            os.environ[VARIABLE] = first
            if tested and first in LIBRARIES:
                os.environ[VARIABLE] = next(filter(_draws, (first, *installed)), first)
    return os.environ.get(VARIABLE, "")


def _draws(backend: str) -> bool:
    program = "import mujoco; context = mujoco.GLContext(8, 8); context.make_current()"
    variables = os.environ | {VARIABLE: backend}
    try:
        done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:  # the driver hangs
        return False
    return done.returncode == 0


def _loads(backend: str) -> bool:
    for name in LIBRARIES[backend]:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False
