"""Which way MuJoCo draws: as was chosen, on the screen, or without one."""

from __future__ import annotations

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
