"""The launcher, with an sbatch that only records its arguments, and its check that each run of a study can start."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interreplay.experiments.commands import study
from tests.experiments.commands.command_lines import rejects

HOME = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("submit", HOME / "cluster_deployment/submit.py")
submit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(submit)

SBATCH = """#!{python}
import json, os, sys
with open("{log}", "a") as file:
    print(json.dumps([sys.argv[1:], dict(os.environ)]), file=file)
print("77;cluster")
"""
PYTHON = """#!/bin/bash
[ "$2" = "import ray" ] && exit
printf '%s\\n' "${{@:3}}" >"{folder}/flags"
printf '3\\n12\\ncounted\\n17\\nclosed after 99\\n'
"""
count_runs = submit.count_runs
SCONTROL = "#!/bin/sh\necho 'MaxArraySize            = {most}'\n"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Write a study of 12 runs, and stubs of Slurm's programs."""
    (tmp_path / "bin").mkdir()
    write(tmp_path / "bin/sbatch", SBATCH.format(python=sys.executable, log=tmp_path / "log"))
    write(tmp_path / "bin/scontrol", SCONTROL.format(most=1001))
    (tmp_path / "study.yaml").write_text("seeds: 12\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(submit, "count_runs", lambda args, settings: 12)
    for name in list(os.environ):
        if name.startswith("INTERREPLAY_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, text):
    path.write_text(text)
    path.chmod(0o755)


def handed_in(site):
    return [json.loads(line) for line in (site / "log").read_text().splitlines()]


def test_a_concurrent_job(site, monkeypatch, capsys):
    monkeypatch.setenv("SLURM_JOB_ID", "5")  # submitted from inside of a job
    monkeypatch.setenv("SLURM_CONF", "kept")
    monkeypatch.setenv("INTERREPLAY_CONDA", "replaced")
    (site / "env/bin").mkdir(parents=True)
    (site / "env/bin/activate").touch()
    words = "concurrent study.yaml --partition gpu --account me --time 2-0 --nodes 4 --cpus 16 --mem 32G --gpus a100:2"
    words += " --qos long --venv env --module python/3.11 --module cuda --scratch /scratch --warning 200"
    assert submit.main([*words.split(), "--sbatch=--exclusive", "--", "--gpus-per-trial", "0.5"]) == 0
    ((argv, env),) = handed_in(site)
    (copy,) = (site / "results/study/slurm").glob("*.yaml")
    script = HOME / "cluster_deployment/concurrent_deployment/run.sh"
    assert argv[-5:] == [str(script), str(copy), str(site / "results/study"), "--gpus-per-trial", "0.5"]
    expected = "--partition=gpu --account=me --qos=long --time=2-0 --nodes=4 --cpus-per-task=16 --mem=32G "
    expected += "--gres=gpu:a100:2 --signal=B:USR1@200 --exclusive"
    assert set(expected.split()) < set(argv)
    assert not any(word.startswith("--array") for word in argv)
    assert (env["INTERREPLAY_VENV"], env["INTERREPLAY_CONDA"]) == (str(site / "env"), "")
    assert env["INTERREPLAY_MODULES"] == "python/3.11 cuda"
    assert (env["INTERREPLAY_STOP_BEFORE"], env["INTERREPLAY_SCRATCH"]) == ("100", "/scratch")
    assert env["INTERREPLAY_HOME"] == str(HOME) and env["SLURM_CONF"] == "kept" and "SLURM_JOB_ID" not in env
    assert "submitted job 77;" in capsys.readouterr().out


def test_an_array(site):
    assert submit.main("single study.yaml --results_dir out --conda base --at-once 3".split()) == 0
    ((argv, env),) = handed_in(site)
    assert "--array=0-11%3" in argv and not any(word.startswith("--nodes") for word in argv)
    assert f"--output={site}/out/slurm/%x-%A_%a.out" in argv
    assert env["INTERREPLAY_CONDA"] == "base" and "INTERREPLAY_VENV" not in env


def test_some_runs_of_an_array(site, capsys):
    assert submit.main("single study.yaml --runs 0-2,11".split()) == 0
    assert "--array=0-2,11" in handed_in(site)[0][0]
    rejects(capsys, submit.main, ["single", "study.yaml", "--runs", "12"], "runs 0-11")
    rejects(capsys, submit.main, ["single", "study.yaml", "--runs", "1,5-2"], "5-2 contains no run")


BATCHES = {
    "": [("0-4", None), ("0-4", "5"), ("0-1", "10")],
    "--runs 3-6,9": [("3-4", None), ("0-1,4", "5")],
    "--runs 11": [("1", "10")],
}


@pytest.mark.parametrize(("runs", "expected"), BATCHES.items())
def test_runs_beyond_the_size_of_an_array(site, runs, expected):
    write(site / "bin/scontrol", SCONTROL.format(most=5))
    assert submit.main(["single", "study.yaml", *runs.split()]) == 0
    batches = []
    for argv, env in handed_in(site):
        (array,) = [word.partition("=")[2] for word in argv if word.startswith("--array=")]
        batches.append((array, env.get("INTERREPLAY_FIRST_RUN")))
    assert batches == expected


OURS = "INTERREPLAY_HOME,INTERREPLAY_STAGGER,INTERREPLAY_STOP_BEFORE"


@pytest.mark.parametrize(("given", "expected"), [("NONE", OURS), ("A=b", f"A=b,{OURS}"), ("ALL,A=b", "ALL,A=b")])
def test_the_settings_are_exported_in_any_case(site, monkeypatch, given, expected):
    monkeypatch.setenv("INTERREPLAY_STAGGER", "0")
    assert submit.main(["single", "study.yaml", f"--sbatch=--export={given}", "--sbatch=--exclusive"]) == 0
    ((argv, _),) = handed_in(site)
    assert [word for word in argv if word.startswith("--export")] == [f"--export={expected}"]
    assert "--exclusive" in argv


def test_pending_tasks_read_a_copy_of_the_study(site):
    assert submit.main(["single", "study.yaml"]) == 0
    (site / "study.yaml").write_text("seeds: 3\n")
    assert submit.main(["single", "study.yaml"]) == 0
    copies = [Path(argv[-2]) for argv, _ in handed_in(site)]
    assert [path.read_text() for path in copies] == ["seeds: 12\n", "seeds: 3\n"]


def test_the_command_of_a_dry_run_can_be_pasted(site, capsys):
    (site / "study.yaml").rename(site / "my study.yaml")
    assert submit.main(["single", "my study.yaml", "--dry-run"]) == 0
    lines = capsys.readouterr().out.partition("would submit:\n")[2]
    subprocess.run(["bash", "-euc", lines], check=True, stdout=subprocess.DEVNULL)
    ((argv, env),) = handed_in(site)
    output = next(word for word in argv if word.startswith("--output="))
    assert Path(output.partition("=")[2]).parent.is_dir()
    assert Path(argv[-2]).read_text() == "seeds: 12\n" and env["INTERREPLAY_HOME"] == str(HOME)


def test_a_dry_run_submits_nothing(site, monkeypatch, capsys):
    (site / "bin/sbatch").unlink()
    assert submit.main("single study.yaml --dry-run --sbatch=--mail-type=END".split()) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^INTERREPLAY_\w+=", shown, re.MULTILINE)  # quotes around the name would make it a command
    assert "12 runs" in shown and "would submit:" in shown and "--array=0-11" in shown and "--mail-type=END" in shown
    assert not (site / "results").exists()
    monkeypatch.setenv("PATH", str(site / "bin"))
    rejects(capsys, submit.main, ["single", "study.yaml"], "sbatch is not installed here")


RESOURCES = {
    "single": "--job_cpus=1 --job_gpus=0",
    "single --cpus 2 --gpus a100:2": "--job_cpus=2 --job_gpus=2",
    "single --sbatch=--gres=gpu:1 --sbatch=-c2": "",
    "concurrent --nodes 2 --gpus 1": "--job_cpus=8 --job_gpus=2 --address auto",
}


@pytest.mark.parametrize(("words", "flags"), RESOURCES.items())
def test_the_check_knows_the_resources_and_ignores_what_environments_print(site, monkeypatch, words, flags):
    monkeypatch.setattr(submit, "count_runs", count_runs)
    (site / "env/bin").mkdir(parents=True)
    (site / "env/bin/activate").write_text(f'PATH="{site}/env/bin:$PATH"\n')
    write(site / "env/bin/python", PYTHON.format(folder=site))
    kind, *more = words.split()
    args = submit.make_parser().parse_args([kind, "study.yaml", "--venv", "env", *more])
    args.flags = []
    args.output_dir = Path("out")
    assert submit.count_runs(args, submit.environment(args)) == 12
    flags += " study.yaml --output_dir out --count"
    if kind == "single":
        flags += " --run 0"
    assert (site / "flags").read_text().split() == flags.split()


def test_formats_of_times():
    times = {"90": 5400, "90:30": 5430, "01:00:00": 3600, "2-00": 172_800, "1-02:03:04": 93_784, "1-02:03": 93_780}
    for time, expected in times.items():
        assert submit.seconds(time) == expected


LOUD = """
import atexit
import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv

print("3")
atexit.register(print, "17\\nclosed after 99")
gym.register("Loud-v0", PendulumEnv, max_episode_steps=200)
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A study of two runs."""
    path = tmp_path / "study.yaml"
    path.write_text("buffers: [Uniform]\nenvs: [Pendulum-v1]\nseeds: 2\nsettings: {buffer_size: 1000000}\n")
    monkeypatch.chdir(tmp_path)
    return str(path)


def test_runs_are_counted_after_their_check(file, capsys, monkeypatch):
    monkeypatch.setattr("interreplay.experiments.commands.preparation.free_memory", lambda device: 1)
    assert study.main([file, "--count"]) == 0
    assert capsys.readouterr().out == "2\n", "the memory of a login node is not the job's"
    assert study.main([file, "--device", "cuda", "--count"]) == 0, "nor are its GPUs"
    for fitting in (
        "--num_workers 1 --run 0 --job_cpus 1 --job_gpus 0",
        "--cpus_per_trial 2 --address auto --job_cpus 2",
    ):
        assert study.main([file, "--count", *fitting.split()]) == 0, fitting
    flags = ["--envs", "CartPole-v1", "--trainers", "SAC,TD3", "--buffers", "Uniform,HER", "--seeds", "2"]
    capsys.readouterr()
    assert study.main([file, *flags, "--count"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and [line.partition(": ")[2].partition("; ")[0] for line in err.splitlines()] == [
        "error: runs 1, 5 of 8 cannot start: HER cannot store CartPole-v1: hindsight needs Dict observations with "
        "achieved_goal and desired_goal",
        "error: runs 2-3, 6-7 of 8 cannot start: TD3 requires continuous actions (Box, or a Dict or Tuple of Boxes)",
    ]


def launched(folder, *words):
    """Run the launcher in a separate process."""
    command = [sys.executable, HOME / "cluster_deployment/submit.py", "single", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_the_launcher_rejects_a_study_with_runs_that_cannot_start(file, tmp_path):
    done = launched(tmp_path, file, "--venv", sys.prefix, "--", "--buffers", "Uniform,HER")
    assert (done.returncode, done.stdout) == (2, "")
    assert "runs 1, 3 of 4 cannot start: HER cannot store Pendulum-v1" in done.stderr
    assert not (tmp_path / "results").exists()
    (tmp_path / "loud.py").write_text(LOUD)
    loud = ["--", "--envs", "loud:Loud-v0"]
    done = launched(tmp_path, file, "--venv", sys.prefix, "--dry-run", *loud)
    assert done.returncode == 0 and "2 runs, results in" in done.stdout and "--array=0-1" in done.stdout, done.stderr


@pytest.mark.slow
def test_the_launcher_reports_missing_packages(file, tmp_path):
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "activate").write_text(f'PATH="{tmp_path}/env/bin:/usr/bin:/bin"\n')
    (tmp_path / "env" / "bin" / "python").symlink_to("/usr/bin/false")
    words = [file, "--venv", str(tmp_path / "env"), "--dry-run"]
    done = launched(tmp_path, *words)
    assert done.returncode == 2 and "cannot import ray" in done.stderr
    assert "cannot be checked" in done.stderr and "--no-check" in done.stderr
    done = launched(tmp_path, *words, "--no-check", "--runs", "0-1")
    assert done.returncode == 0 and "not checked" in done.stdout and "--array=0-1" in done.stdout
