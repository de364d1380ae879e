"""What is handed out: a wheel with everything that the packages read, an sdist that is the whole repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_BEHIND = (".git", ".venv", "results", "report", "site", "build", "dist", "pictures", "*cache*", "*.egg-info")
LEFT_BEHIND += ("*.py[cod]", "*.npz", "*.log")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, set[str], set[str]]:
    """A copy of the repository, and the names in the sdist and in the wheel that is made of that sdist."""
    base = tmp_path_factory.mktemp("built")
    shutil.copytree(ROOT, base / "clone", ignore=shutil.ignore_patterns(*LEFT_BEHIND))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(base / "dist"), "clone"]
    done = subprocess.run(command, cwd=base, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = (base / "dist").glob("*.tar.gz"), (base / "dist").glob("*.whl")
    with tarfile.open(sdist) as file:
        inside = {member.name.partition("/")[2] for member in file if member.isfile()}
    shutil.rmtree(base / "clone" / "interreplay.egg-info", ignore_errors=True)
    shutil.rmtree(base / "clone" / "build", ignore_errors=True)
    with zipfile.ZipFile(wheel) as file:
        return base / "clone", inside, set(file.namelist())


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_sdist_is_the_whole_repository(built):
    clone, sdist, _ = built
    assert not files(clone) - sdist


def test_the_wheel_holds_both_packages_with_all_their_files(built):
    clone, _, wheel = built
    wanted = {name for name in files(clone) if name.startswith(("interreplay/", "replay_buffers/"))}
    assert not wanted - wheel
    assert {"interreplay/py.typed", "replay_buffers/py.typed", "interreplay/presets/mujoco.yaml"} <= wheel
    assert {"interreplay/analysis/page.html", "interreplay/analysis/page.css"} <= wheel


def test_the_wheel_holds_nothing_else(built):
    _, _, wheel = built
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"interreplay", "replay_buffers"}


@pytest.mark.parametrize("where", ["--target", "--prefix"])
def test_an_installed_wheel_finds_its_configurations(built, where, tmp_path):
    clone, _, _ = built
    (wheel,) = (clone.parent / "dist").glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", where, str(tmp_path)]
    subprocess.run([*install, "--ignore-installed", str(wheel)], check=True, timeout=500)
    (package,) = (path for path in tmp_path.rglob("interreplay") if (path / "py.typed").exists())
    code = "from interreplay.flags.config_files import folder, names; print(folder(), 'atari/rainbow_dqn' in names())"
    environment = os.environ | {"PYTHONPATH": str(package.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.stdout == f"{tmp_path / 'share/interreplay/configs'} True\n", done.stderr


def test_the_wheel_brings_the_configurations(built):
    clone, _, wheel = built
    wanted = {str(path.relative_to(clone)) for path in (clone / "configs").rglob("*.yaml")}
    brought = {name.partition(".data/data/share/interreplay/")[2] for name in wheel if ".data/" in name}
    assert brought == wanted and "configs/atari/rainbow_dqn.yaml" in wanted
