"""Requirements: the supported versions of Python, pins within the ranges, and names of extras."""

import configparser
import importlib.util
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "env" / "requirements.txt"
CONFIG = configparser.ConfigParser()
CONFIG.read(ROOT / "setup.cfg")
PYTHONS = re.findall(r"Python :: (3\.\d+)", CONFIG["metadata"]["classifiers"])
EXTRAS = CONFIG["options.extras_require"]
UV = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
# Packages missing for a Python version: labmaze, which dm-control needs, has no wheels for 3.13.
WITHOUT = {"3.13": {"shimmy", "dm-control"}}
# Ranges that no pin fills: what only benchmarks need, what tests do without, and what Ray and PyTorch bring.
UNPINNED = {"stable-baselines3", "torchrl", "cpprb", "gpytorch", "pyyaml", "typing-extensions"}
FOLDERS = ("interreplay", "replay_buffers", "docs", "examples", "benchmarks", "cluster_deployment", "env")
KINDS = {".py", ".md", ".yaml", ".txt", ".def"}


def requirements(text: str) -> list[Requirement]:
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    return [Requirement(line) for line in lines if line]


def pins(python: str) -> dict[str, Requirement]:
    """Return the pins of a Python version by package."""
    found = defaultdict(list)
    for pin in requirements(PINS.read_text()):
        if pin.marker is None or pin.marker.evaluate({"python_version": python, "python_full_version": f"{python}.0"}):
            found[canonicalize_name(pin.name)].append(pin)
    assert all(len(several) == 1 for several in found.values()), found
    return {name: pin for name, (pin,) in found.items()}


def test_the_supported_pythons_are_one_range():
    assert [f"3.{minor}" for minor in range(10, 14)] == PYTHONS
    accepted = SpecifierSet(CONFIG["options"]["python_requires"])
    assert all(python in accepted for python in PYTHONS) and "3.9" not in accepted


@pytest.mark.parametrize("python", PYTHONS)
def test_pins_are_complete_and_within_the_ranges_of_the_package(python):
    chosen = pins(python)
    everything = {canonicalize_name(pin.name) for pin in requirements(PINS.read_text())}
    assert everything - chosen.keys() == WITHOUT.get(python, set())
    for line in [CONFIG["options"]["install_requires"], *EXTRAS.values()]:
        for requirement in requirements(line):
            pin = chosen.get(canonicalize_name(requirement.name))
            if pin is None:
                assert canonicalize_name(requirement.name) in UNPINNED | WITHOUT.get(python, set()), requirement
            else:
                (version,) = pin.specifier
                assert version.version in requirement.specifier, f"{pin} is outside of {requirement}"


def test_extras_have_canonical_names():
    assert all(name == canonicalize_name(name) for name in EXTRAS)


def test_all_extras_in_texts_exist():
    texts = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in KINDS]
    named = {extra for path in texts for extra in re.findall(r"interreplay\[([\w-]+)\]", path.read_text())}
    assert named <= set(EXTRAS) and {"dm-control", "analysis"} <= named


def test_the_client_of_minaris_default_remote_is_installed():
    """`interreplay train --offline_data minari:ID` downloads through it; most datasets are HDF5 files."""
    remotes = pytest.importorskip("minari.storage.remotes")
    kind = remotes.DEFAULT_REMOTE.partition("://")[0]
    (requirement,) = [line for line in requirements(EXTRAS["minari"]) if line.name == "minari"]
    assert requirement.extras == {kind}
    assert type(remotes.get_cloud_storage()).__name__ == "HuggingFaceStorage"
    assert importlib.util.find_spec("h5py")


@pytest.fixture(scope="module")
def resolving(tmp_path_factory):
    """Start to resolve the pins for all versions of Python at once; return the processes and their output files."""
    folder = tmp_path_factory.mktemp("resolved")
    started = {}
    for python in PYTHONS:
        found = folder / f"{python}.txt"
        words = [UV, "pip", "compile", "--quiet", "--system-certs", "--only-binary", ":all:"]
        words += ["--python-version", python, "--python-platform", "linux", str(PINS), "-o", str(found)]
        started[python] = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True), found
    yield started
    for process, _ in started.values():
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.skipif(UV is None, reason="uv is not installed, so no pins are resolved")
@pytest.mark.parametrize("python", PYTHONS)
def test_the_pins_can_be_installed_together(python, resolving):
    process, found = resolving[python]
    _, err = process.communicate(timeout=500)
    if re.search("Failed to fetch|error sending request|dns error", err):
        pytest.skip(f"no package index can be reached, so the pins are not resolved for Python {python}")
    assert process.returncode == 0, err
    resolved = {pin.name: pin for pin in requirements(re.sub(r"^\s*--hash.*$", "", found.read_text(), flags=re.M))}
    assert len(resolved) > 100
    for name, pin in pins(python).items():
        assert resolved[name].specifier == pin.specifier
