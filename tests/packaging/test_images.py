"""The image definitions, without a build: what they copy exists, what they install is pinned, nothing runs as root."""

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE, DEFINITION = ROOT / "env" / "Dockerfile", ROOT / "env" / "apptainer.def"
CONTAINER = ROOT / "cluster_deployment" / "container"
HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")


def section(name: str) -> list[str]:
    """Return the lines of a section of the Apptainer definition."""
    match = re.search(rf"^%{name}\n(.*?)(?=^%|\Z)", DEFINITION.read_text(), re.MULTILINE | re.DOTALL)
    return [line.strip() for line in match[1].splitlines() if line.strip()] if match else []


def copied() -> set[str]:
    """Return the paths that the Dockerfile copies from the repository."""
    lines = re.findall(r"^COPY (.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
    return {source for line in lines for source in line.split()}


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed")
def test_the_linter_finds_nothing():
    done = subprocess.run([HADOLINT, DOCKERFILE], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "")


def test_copied_files_exist_and_are_not_ignored():
    assert all((ROOT / source).exists() for source in copied())
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert kept == copied()
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    packages = {line.rstrip("*") for line in config["options.packages.find"]["include"].split()}
    assert packages < copied() and config["metadata"]["license_files"] in copied()


def test_both_definitions_make_the_same_image():
    files = {source: target for source, target in (line.split() for line in section("files"))}
    assert files == {source: f"/opt/interreplay/{source}" for source in copied()}
    text = DOCKERFILE.read_text()
    assert f"FROM {re.search(r'^From: (.+)$', DEFINITION.read_text(), re.MULTILINE)[1]}\n" in text
    assert section("arguments") == [re.search(r"^ARG (.+)$", text, re.MULTILINE)[1]] == ["TORCH=cpu"]
    assert section("environment") == [f"export {re.search(r'^ENV (.+)$', text, re.MULTILINE)[1]}"]
    assert [line.split()[:2] for line in section("post")][1] == ["sh", "env/install_in_image.sh"]


def test_nothing_runs_as_root():
    users = re.findall(r"^USER (\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert users and users[-1] not in ("root", "0")


def test_every_user_can_write_to_the_home_folder_of_the_printed_commands():
    assert re.search(r"install -d .*-m 1777 /runs$", DOCKERFILE.read_text(), re.MULTILINE)
    page = (ROOT / "docs" / "containers.md").read_text()
    assert page.count('--user "$(id -u)" -e HOME=/runs') == page.count("docker run")


@pytest.mark.parametrize("torch", ["cpu", "cu126"])
def test_pytorch_comes_first_and_everything_is_pinned(tmp_path, torch):
    (tmp_path / "bin").mkdir()
    fake(tmp_path / "bin/apt-get", "exit 0")
    fake(tmp_path / "bin/rm", 'case $* in *lists*) exit ;; esac; exec /bin/rm "$@"')
    fake(
        tmp_path / "bin/pip", f'[ "$2" = --index-url ] || cat "$3" >{tmp_path}/constraints; echo "$@" >>{tmp_path}/pip'
    )
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    words = ["sh", "env/install_in_image.sh", torch]
    env = {**os.environ, "PATH": path}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = (tmp_path / "pip").read_text().splitlines()
    pinned = next(
        line for line in (ROOT / "env/requirements.txt").read_text().splitlines() if line.startswith("torch==")
    )
    assert first == f"install --index-url https://download.pytorch.org/whl/{torch} {pinned}"
    assert second.startswith("install --constraint ") and second.endswith(" .[analysis,atari,robotics,video]")
    lines = [line.split("#")[0].strip() for line in (tmp_path / "constraints").read_text().splitlines()]
    constraints = [Requirement(line) for line in lines if line]
    assert len(constraints) > 30 and not any(each.extras for each in constraints), "pip refuses extras in constraints"


def fake(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def site(tmp_path):
    """Write an image, and a stub of `apptainer` that records its arguments and runs the command here."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "interreplay.sif").touch()
    fake(
        tmp_path / "bin/apptainer",
        f'echo "$@" >>{tmp_path}/calls; shift; while [ "${{1#-}}" != "$1" ]; do [ $1 = --bind ] && shift; shift; done;'
        f' shift 2; exec {sys.executable} "$@"',
    )
    return tmp_path


def run(site: Path, text: str, **env: str) -> subprocess.CompletedProcess:
    own = {"PATH": f"{site / 'bin'}:{os.environ['PATH']}", "INTERREPLAY_IMAGE": str(site / "interreplay.sif")} | env
    own |= {"INTERREPLAY_HOME": str(ROOT), "INTERREPLAY_VENV": str(CONTAINER), "SLURM_JOB_ID": "12"}
    common = ROOT / "cluster_deployment" / "common.sh"
    words = ["bash", "-uc", f'. "{common}"; {text}']
    return subprocess.run(words, env={**os.environ, **own}, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_the_batch_scripts_run_python_in_the_image(site):
    done = run(site, "activate; python -c 'import sys; print(*sys.argv[1:])' 'two words' x", CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (0, "two words x\n"), done.stderr
    calls = (site / "calls").read_text().splitlines()
    assert calls[-1].startswith(f"exec --bind {ROOT} {site}/interreplay.sif python -c import sys")
    assert "import ray" in calls[0], "the environment is tried before anything runs"


@pytest.mark.slow
def test_the_image_receives_the_gpu_and_scratch_folder_of_the_job(site):
    done = run(site, "activate; python -V", CUDA_VISIBLE_DEVICES="0", RAY_TMPDIR=str(site))
    assert done.returncode == 0, done.stderr
    last = (site / "calls").read_text().splitlines()[-1]
    assert last == f"exec --nv --bind {ROOT} --bind {site} {site}/interreplay.sif python -V"


@pytest.mark.slow
def test_signals_reach_the_program_in_the_image(site):
    code = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(75)); print(1, flush=True);"
    text = (
        f'activate; python -c "{code} time.sleep(60)" >{site}/out & pid=$!; until [ -s {site}/out ]; do sleep 0.1; done'
    )
    done = run(site, f"{text}; kill -TERM $pid; wait $pid; echo ended $?")
    assert done.stdout == "ended 75\n", done.stderr


def test_a_missing_image_is_one_line(site):
    done = run(site, "activate", INTERREPLAY_IMAGE=str(site / "none.sif"))
    assert done.returncode == 1 and f"INTERREPLAY_IMAGE={site}/none.sif: expected an image file" in done.stderr


@pytest.mark.parametrize(
    ("target", "tag", "torch"), [("docker-cpu", "interreplay", None), ("docker-gpu", "interreplay:cuda", "cu126")]
)
def test_make_builds_the_images(target, tag, torch):
    words = ["make", "--no-print-directory", "-n", target]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    words = done.stdout.split()
    assert words[:2] == ["docker", "build"] and words[words.index("-t") + 1] == tag
    assert (f"TORCH={torch}" in words) == (torch is not None)
