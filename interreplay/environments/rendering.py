"""How MuJoCo draws where there is no screen: with EGL, or else with OSMesa.

MuJoCo's users (Gymnasium, dm_control) look at ``MUJOCO_GL`` when they are imported or when they draw first, and ask a
screen for it otherwise; dm_control, which RLlib imports wherever it is installed, then complains that there is none.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

VARIABLE = "MUJOCO_GL"
LIBRARIES = {"egl": ("libEGL.so.1", "libEGL.so"), "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so")}


def has_screen() -> bool:
    """Return whether a window can be opened, as far as the environment variables tell."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def choose_backend() -> str:
    """Set ``MUJOCO_GL`` where there is neither a screen nor a choice made already.

    Returns:
        What it is then: ``egl``, ``osmesa``, ``disabled`` where neither is installed, or ``""`` for the screen.
    """
    if not has_screen():
        for name in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):  # pygame, which draws classic control, looks for both
            os.environ.setdefault(name, "dummy")
        if not os.environ.get(VARIABLE):
            os.environ[VARIABLE] = next((name for name in LIBRARIES if _loads(LIBRARIES[name])), "disabled")
    return os.environ.get(VARIABLE, "")


def choose_working_backend() -> str:
    """Return the same choice, but it is tried in a process of its own, and the other taken where it does not work.

    To be called before MuJoCo is imported. What is set already stays.
    """
    if os.environ.get(VARIABLE) or has_screen():
        return choose_backend()
    first = choose_backend()
    for name in (first, *(other for other in LIBRARIES if other != first and _loads(LIBRARIES[other]))):
        if name in LIBRARIES and _draws(name):
            os.environ[VARIABLE] = name
            break
    return os.environ[VARIABLE]


def _draws(backend: str) -> bool:
    program = "import mujoco; context = mujoco.GLContext(8, 8); context.make_current()"
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {VARIABLE: backend}, capture_output=True, timeout=60
    )
    return done.returncode == 0


def _loads(names: tuple[str, ...]) -> bool:
    for name in names:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False
