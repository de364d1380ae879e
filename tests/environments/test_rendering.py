"""MuJoCo's rendering backend: as chosen, on the screen, or without a screen."""

import os
import subprocess
import sys

import pytest

from interreplay.environments import rendering

BOTH = ["libEGL.so.1", "libOSMesa.so.8"]


@pytest.mark.parametrize(
    ("variables", "libraries", "works", "expected"),
    [
        ({"MUJOCO_GL": "osmesa"}, ["libEGL.so.1"], None, "osmesa"),
        ({"DISPLAY": ":0"}, ["libEGL.so.1"], None, ""),
        ({"WAYLAND_DISPLAY": "wayland-0"}, [], None, ""),
        ({}, BOTH, None, "egl"),
        ({}, ["libOSMesa.so.6"], None, "osmesa"),
        ({}, [], None, "disabled"),
        ({}, BOTH, {"egl", "osmesa"}, "egl"),
        ({}, BOTH, {"osmesa"}, "osmesa"),
        ({}, BOTH, set(), "egl"),
    ],
)
def test_the_choice(variables, libraries, works, expected, monkeypatch):
    """`works` are the backends that draw in a test process, None without a test."""
    monkeypatch.setattr(rendering, "_draws", (works or set()).__contains__)
    monkeypatch.setattr(rendering.os, "environ", dict(variables))

    def load(name):
        if name not in libraries:
            raise OSError(name)

    monkeypatch.setattr(rendering.sys, "platform", "linux")
    monkeypatch.setattr(rendering.ctypes, "CDLL", load)
    assert rendering.choose_backend(tested=works is not None) == expected


def test_a_backend_that_hangs_does_not_draw(monkeypatch):
    def hang(command, timeout, **options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(rendering.subprocess, "run", hang)
    assert not rendering._draws("egl")


ORDER = """
import importlib, os, sys

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "ray.rllib":
            print(os.environ.get("MUJOCO_GL"))
            raise ImportError(name)

sys.meta_path.insert(0, Stop())
for module in ("experiments.training.start", "experiments.evaluation.play", "experiments.rllib_command.main", "rllib"):
    os.environ.pop("MUJOCO_GL", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "interreplay"]:
        del sys.modules[name]
    try:
        importlib.import_module(f"interreplay.{module}")
    except ImportError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_backend_is_chosen_before_rllib_is_imported():
    """RLlib imports dm_control, which warns about a missing display unless a backend is chosen."""
    screen = ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL")
    variables = {name: value for name, value in os.environ.items() if name not in screen}
    done = subprocess.run([sys.executable, "-c", ORDER], env=variables, capture_output=True, text=True, check=True)
    backends = done.stdout.splitlines()[::2]
    assert done.stdout.splitlines()[1::2] == ["ray.rllib"] * 4
    assert len(backends) == 4 and set(backends) <= {"egl", "osmesa", "disabled"}
