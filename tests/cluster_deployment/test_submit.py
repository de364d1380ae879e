"""The launcher, with an sbatch that only records its arguments."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    more = (
        "--qos long --venv env --module python/3.11 --module cuda --scratch /scratch --sbatch=--exclusive --warning 200"
    )
    assert submit.main([*words.split(), *more.split(), "--", "--gpus-per-trial", "0.5"]) == 0
    ((argv, env),) = handed_in(site)
    (copy,) = (site / "results/study/slurm").glob("*.yaml")
    assert argv[-5:] == [
        str(HOME / "cluster_deployment/concurrent_deployment/run.sh"),
        str(copy),
        str(site / "results/study"),
        *("--gpus-per-trial", "0.5"),
    ]
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


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ("", [("0-4", None), ("0-4", "5"), ("0-1", "10")]),
        ("--runs 3-6,9", [("3-4", None), ("0-1,4", "5")]),
        ("--runs 11", [("1", "10")]),
    ],
)
def test_runs_beyond_the_size_of_an_array(site, runs, expected):
    write(site / "bin/scontrol", SCONTROL.format(most=5))
    assert submit.main(["single", "study.yaml", *runs.split()]) == 0
    batches = []
    for argv, env in handed_in(site):
        (array,) = [word.partition("=")[2] for word in argv if word.startswith("--array=")]
        batches.append((array, env.get("INTERREPLAY_FIRST_RUN")))
    assert batches == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("NONE", "INTERREPLAY_HOME,INTERREPLAY_STAGGER,INTERREPLAY_STOP_BEFORE"),
        ("PATH,A=b", "PATH,A=b,INTERREPLAY_HOME,INTERREPLAY_STAGGER,INTERREPLAY_STOP_BEFORE"),
        ("ALL,A=b", "ALL,A=b"),
    ],
)
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


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("single", "--job_cpus=1 --job_gpus=0 study.yaml --output_dir out --count --run 0"),
        ("single --cpus 2 --gpus a100:2", "--job_cpus=2 --job_gpus=2 study.yaml --output_dir out --count --run 0"),
        ("single --sbatch=--gres=gpu:1 --sbatch=-c2", "study.yaml --output_dir out --count --run 0"),
        (
            "concurrent --nodes 2 --gpus 1",
            "--job_cpus=8 --job_gpus=2 --address auto study.yaml --output_dir out --count",
        ),
    ],
)
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
    assert (site / "flags").read_text().split() == flags.split()


def test_formats_of_times():
    times = {"90": 5400, "90:30": 5430, "01:00:00": 3600, "2-00": 172_800, "1-02:03:04": 93_784, "1-02:03": 93_780}
    for time, expected in times.items():
        assert submit.seconds(time) == expected
