"""MuJoCo's rendering backend: as chosen, on the screen, or without a screen."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from interreplay.environments import rendering


@pytest.mark.parametrize(
    ("variables", "libraries", "expected"),
    [
        ({"MUJOCO_GL": "osmesa"}, ["libEGL.so.1"], "osmesa"),
        ({"DISPLAY": ":0"}, ["libEGL.so.1"], ""),
        ({"WAYLAND_DISPLAY": "wayland-0"}, [], ""),
        ({}, ["libEGL.so.1", "libOSMesa.so.8"], "egl"),
        ({}, ["libOSMesa.so.6"], "osmesa"),
        ({}, [], "disabled"),
    ],
)
def test_the_choice(variables, libraries, expected, monkeypatch):
    monkeypatch.setattr(rendering.os, "environ", dict(variables))

    def load(name):
        if name not in libraries:
            raise OSError(name)

    monkeypatch.setattr(rendering.sys, "platform", "linux")
    monkeypatch.setattr(rendering.ctypes, "CDLL", load)
    assert rendering.choose_backend() == expected


@pytest.mark.slow
@pytest.mark.parametrize("module", ["training.build", "evaluation.evaluate", "rllib_command.main"])
def test_rllib_is_imported_without_a_warning_about_the_display(module):
    variables = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MUJOCO_GL")}
    program = f"import interreplay.experiments.{module}, ray.rllib"
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)
    assert "DISPLAY" not in done.stderr
