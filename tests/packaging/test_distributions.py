"""Distributions: the wheel contains all files that the packages read, the sdist the whole repository."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import interreplay

ROOT = Path(__file__).resolve().parents[2]
AT_THE_TOP = (".git", ".venv", "results", "report", "site", "build", "dist")
ANYWHERE = ("pictures", "__pycache__", ".*_cache", "*.egg-info", "*.py[cod]", "*.npz", "*.log")

pytestmark = pytest.mark.slow


def left_behind(folder: str, names: list[str]) -> set[str]:
    """Return what the repository does not track; a package may have the name of a folder of output."""
    top = AT_THE_TOP if Path(folder) == ROOT else ()
    return shutil.ignore_patterns(*ANYWHERE, *top)(folder, names)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, set[str], set[str]]:
    """Return a copy of the repository, and the names in the sdist and in the wheel built from it."""
    base = tmp_path_factory.mktemp("built")
    shutil.copytree(ROOT, base / "clone", ignore=left_behind)
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


def test_the_sdist_contains_the_whole_repository(built):
    clone, sdist, _ = built
    assert not files(clone) - sdist


def test_the_wheel_contains_both_packages_with_all_files_and_nothing_else(built):
    clone, _, wheel = built
    expected = {name for name in files(clone) if name.startswith(("interreplay/", "replay_buffers/"))}
    assert not expected - wheel
    assert {"interreplay/py.typed", "replay_buffers/py.typed", "interreplay/presets/mujoco.yaml"} <= wheel
    report = "interreplay/experiments/report"
    assert {f"{report}/page.html", f"{report}/page.css", f"{report}/published_curves.csv.gz"} <= wheel
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"interreplay", "replay_buffers"}


def installed(built, where: str, folder: Path) -> Path:
    """Install a wheel in a folder and return the folder of its packages."""
    (wheel,) = (built[0].parent / "dist").glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*install, "--ignore-installed", where, str(folder), str(wheel)], check=True, timeout=500)
    (package,) = (path for path in folder.rglob("interreplay") if (path / "py.typed").exists())
    return package.parent


FIND = "from interreplay.experiments.flags.config_files import folder, names; print(folder(), 'atari/dqn' in names())"


def test_an_installed_wheel_finds_its_configurations(built, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(installed(built, "--prefix", tmp_path))}
    words = [sys.executable, "-c", FIND]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
    assert done.stdout == f"{tmp_path / 'share/interreplay/configs'} True\n", done.stderr


def test_the_wheel_contains_the_configurations(built):
    clone, _, wheel = built
    expected = {str(path.relative_to(clone)) for path in (clone / "configs").rglob("*.yaml")}
    brought = {name.partition(".data/data/share/interreplay/")[2] for name in wheel if ".data/" in name}
    assert brought == expected and "configs/atari/rainbow_dqn.yaml" in expected


def test_an_installed_wheel_trains_and_evaluates_in_an_empty_folder(built, tmp_path):
    here, there = tmp_path / "empty", tmp_path / "installed"
    here.mkdir()
    environment = os.environ | {"PYTHONPATH": str(installed(built, "--target", there))}

    def printed(*words: str) -> str:
        command = [sys.executable, *words]
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert printed("-c", FIND) == f"{there / 'share/interreplay/configs'} True\n"
    # The preset is a file of the package.
    line = "--preset nmer-paper --buffer NMER --env Pendulum-v1 --total_env_steps 60 --steps_per_iteration 60"
    line += " --learning_starts 40 --train_batch_size 8 --hiddens 8,8 --updates_per_step 1"
    line += " --evaluation_interval 0 --quiet"
    printed(str(there / "bin" / "interreplay-train"), *line.split())
    (run,) = (here / "results").iterdir()
    assert "return" in printed("-m", "interreplay", "evaluate", str(run), "--episodes", "1")


def test_the_citation_names_the_current_version(built):
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    clone, _, _ = built
    assert {"cff-version", "message", "title", "authors", "version", "license"} <= cited.keys()
    assert cited["version"] == interreplay.__version__
    assert len(list((clone.parent / "dist").glob(f"interreplay-{interreplay.__version__}*"))) == 2
