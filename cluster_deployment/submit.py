#!/usr/bin/env python3
"""Submit a study to Slurm: ``submit.py concurrent|single STUDY.yaml``. ``--dry-run`` only prints the commands.

Requires only Python 3.8, so that it also runs outside of the environment of the runs.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[1]
SCRIPTS = {
    "concurrent": HOME / "cluster_deployment/concurrent_deployment/run.sh",
    "single": HOME / "cluster_deployment/single_process_deployment/run.sh",
}
DEFAULT_CPUS = {"concurrent": 4, "single": 1}
"""CPUs per task in the first lines of the scripts."""
COUNT = """
import sys
from interreplay.experiments.commands.study import main
sys.argv[0] = "cluster_run.py"
code = main()
print("counted", flush=True)
sys.exit(code)
"""
"""Prints the number of runs before a line "counted": environments may print numbers too, also when they are closed."""
MAX_ARRAY = 1001
"""Slurm's default for the maximum number of tasks of an array."""
NO_CHECK = "submit without checking that every run can start; an array requires --runs"
TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d\d))?(?::(\d\d))?")


class Refusal(Exception):
    """Raised for a study that cannot be submitted; the message states what is accepted."""


class OneLineParser(argparse.ArgumentParser):
    """Argument parser with one-line errors and suggestions for unknown flags."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the values of all flags. End the program for an unknown flag."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            word = unknown[0].split("=")[0]
            near = difflib.get_close_matches(word, self._option_string_actions, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}? " if near else ""
            kind = "flag" if word.startswith("-") else "argument"
            self.error(f"unknown {kind} {word}; {hint}--help lists all flags")
        return found

    def error(self, message: str) -> Any:
        """End the program with exit code 2 and one line."""
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def main(argv: list[str] | None = None) -> int:
    """Submit a study. Return 0, or 2 after an error in one line."""
    parser = make_parser()
    words = sys.argv[1:] if argv is None else argv
    cut = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:cut])
    args.flags = words[cut + 1 :]
    try:
        return submit(args)
    except Refusal as refusal:
        sys.stderr.write(f"submit.py: error: {refusal}\n")
        return 2


def make_parser() -> argparse.ArgumentParser:
    """Return the parser. Arguments after ``--`` are for ``cluster_run.py``."""
    about = "Submit a study to Slurm. Arguments after -- are passed to cluster_run.py."
    parser = OneLineParser(prog="submit.py", description=about, allow_abbrev=False)
    add = parser.add_argument
    add("kind", choices=SCRIPTS, help="concurrent: all runs in one job of any size; single: an array, one run per task")
    add("study", type=Path, metavar="STUDY.yaml", help="the study file")
    folder = ("--output_dir", "--output-dir", "--results_dir", "--results-dir")
    add(*folder, type=Path, metavar="DIR", help="the study's folder (results/NAME of the study file)")
    job = parser.add_argument_group("the job").add_argument
    job("--partition", metavar="NAME", help="see sbatch")
    job("--account", metavar="NAME", help="see sbatch")
    job("--qos", metavar="NAME", help="see sbatch")
    job("--constraint", metavar="NAME", help="see sbatch")
    limit = "time limit of one start, not of the study, which continues in the next start (%(default)s)"
    job("--time", metavar="HH:MM:SS", default="01:00:00", help=limit)
    job("--nodes", type=whole, metavar="N", default=1, help="nodes of a concurrent job (%(default)s)")
    job("--cpus", type=whole, metavar="N", help="CPUs per node of a concurrent job (4), per run of an array (1)")
    job("--mem", metavar="SIZE", help="memory per node or array task, such as 16G (the site's default)")
    job("--gpus", metavar="[KIND:]N", help="GPUs per node or array task, such as 1 or a100:2")
    job("--at-once", type=whole, metavar="N", help="tasks that may run at a time, in each array (all)")
    job("--runs", metavar="N-N,...", help="only these runs of an array, such as 0-4,7 (all)")
    job("--name", metavar="NAME", default="interreplay", help="the job's name (%(default)s)")
    saving = "seconds before the time limit at which runs save (%(default)s)"
    job("--warning", type=whole, metavar="N", default=120, help=saving)
    job(
        "--sbatch", action="append", default=[], metavar="OPTION", help="any other option, such as --sbatch=--exclusive"
    )
    env = parser.add_argument_group("the environment of the runs").add_argument
    env("--venv", type=Path, metavar="DIR", help="folder of a virtual environment (.venv of the repository)")
    env("--conda", metavar="NAME|DIR", help="name or folder of a conda environment, instead of --venv")
    env("--conda-exe", metavar="FILE", help="path of conda or micromamba, if it is not in PATH")
    env("--module", metavar="NAME", action="append", default=[], help="module to load first; can be repeated")
    env("--scratch", type=Path, metavar="DIR", help="node-local folder with a short path (the first suitable one)")
    add("--no-check", "--no_check", action="store_true", help=NO_CHECK)
    add("--dry-run", "--dry_run", action="store_true", help="print the commands, and submit nothing")
    return parser


def whole(text: str) -> int:
    """Return a whole number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of at least 1")
    return int(text)


def submit(args: argparse.Namespace) -> int:
    """Check the study and its job, then submit.

    Raises:
        Refusal: The job would fail.
    """
    check(args)
    args.output_dir = (args.output_dir or Path("results") / args.study.stem).resolve()
    settings = environment(args)
    if args.no_check:
        runs = None
        print(f"the runs were not checked; results in {args.output_dir}")
    else:
        runs = count_runs(args, settings)
        print(f"{runs} runs, results in {args.output_dir}")
    copy = copy_of(args)
    batches = [command(args, copy, array, first, settings) for array, first in arrays(args, runs)]
    if args.dry_run:
        print("would submit:")
        print(f"mkdir -p {shlex.quote(str(copy.parent))}")
        print(f"cp {shlex.quote(str(args.study))} {shlex.quote(str(copy))}")
        for words, more in batches:
            variables = [f"{name}={shlex.quote(str(value))}" for name, value in {**settings, **more}.items()]
            print(" \\\n  ".join(variables) + " \\")
            print("  " + " \\\n    ".join(map(shlex.quote, words)))
        return 0
    if not shutil.which("sbatch"):
        raise Refusal(
            "sbatch is not installed here; run this on a login node of a cluster with Slurm, or add --dry-run"
        )
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(args.study, copy)
    except OSError as error:
        raise Refusal(f"--output_dir {args.output_dir} cannot be written to ({error.strerror})") from None
    for words, more in batches:
        hand_in(words, {**settings, **more}, args.output_dir)
    return 0


def check(args: argparse.Namespace) -> None:
    """Reject values that Slurm or the job would reject later, or misunderstand."""
    if not args.study.is_file():
        raise Refusal(f"study file {args.study} does not exist")
    if args.conda and args.venv:
        raise Refusal(f"--venv {args.venv} and --conda {args.conda}: give one of them")
    if args.venv and not (args.venv / "bin/activate").is_file():
        raise Refusal(f"--venv {args.venv} is not a virtual environment; expected {args.venv}/bin/activate")
    if args.mem and not re.fullmatch(r"\d+[KMGT]?", args.mem):
        raise Refusal(f"--mem {args.mem}: expected something like 16G")
    if args.gpus and not re.fullmatch(r"([\w.-]+:)?[1-9]\d*", args.gpus):
        raise Refusal(f"--gpus {args.gpus}: expected something like 1 or a100:2")
    if args.kind == "single" and args.nodes != 1:
        raise Refusal(f"--nodes {args.nodes}: each run of an array uses one node; expected kind concurrent")
    if args.kind == "concurrent" and (args.at_once or args.runs):
        raise Refusal("--at-once and --runs are for arrays; in a concurrent job use: -- --max-concurrent N")
    if args.no_check and args.kind == "single" and not args.runs:
        raise Refusal("--no-check: the number of runs is unknown; add --runs, such as --runs 0-29")
    if args.runs and not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", args.runs):
        raise Refusal(f"--runs {args.runs}: expected something like 0-4,7")
    for start, end in re.findall(r"(\d+)-(\d+)", args.runs or ""):
        if int(start) > int(end):
            raise Refusal(f"--runs {args.runs}: {start}-{end} contains no run; expected something like 0-4,7")
    if seconds(args.time) < 2 * args.warning:
        raise Refusal(f"--time {args.time}: expected at least twice --warning, {2 * args.warning} seconds")


def seconds(time: str) -> int:
    """Return a time limit in seconds: ``MM``, ``MM:SS``, ``HH:MM:SS``, ``D-HH``, ``D-HH:MM`` or ``D-HH:MM:SS``."""
    match = TIME.fullmatch(time)
    if not match:
        raise Refusal(f"--time {time}: expected something like 08:00:00 or 2-00:00:00")
    days, first, second, third = (int(group or 0) for group in match.groups())
    if match[1] or match[4]:
        return days * 86400 + first * 3600 + second * 60 + third
    return first * 60 + second


def environment(args: argparse.Namespace) -> dict[str, str]:
    """Return the environment variables of the batch scripts."""
    settings: dict[str, Any] = {
        "INTERREPLAY_HOME": HOME,
        "INTERREPLAY_VENV": args.venv and args.venv.resolve(),
        "INTERREPLAY_CONDA": args.conda,
        "INTERREPLAY_CONDA_EXE": args.conda_exe,
        "INTERREPLAY_MODULES": " ".join(args.module),
        "INTERREPLAY_SCRATCH": args.scratch,
        "INTERREPLAY_STOP_BEFORE": os.environ.get("INTERREPLAY_STOP_BEFORE", args.warning // 2),
    }
    found = {name: str(value) for name, value in settings.items() if value}
    if args.venv:
        found["INTERREPLAY_CONDA"] = ""  # an exported one would take precedence
    return found


def outside(settings: dict[str, str]) -> dict[str, str]:
    """Return the environment of this process with the settings, without variables of a job that it may be part of."""
    found = {}
    for name, value in os.environ.items():
        if not name.startswith("SLURM_") or name == "SLURM_CONF":
            found[name] = value
    return {**found, **settings}


def count_runs(args: argparse.Namespace, settings: dict[str, str]) -> int:
    """Return the number of runs, after checking in their environment that each can start.

    Raises:
        Refusal: A run cannot start, or the environment does not work on this machine.
    """
    inner = '. "$INTERREPLAY_HOME/cluster_deployment/common.sh" && activate && echo activated && exec python "$@"'
    words = ["-c", COUNT, *resources(args)]
    if args.kind == "concurrent":
        words += ["--address", "auto"]
    words += [str(args.study), "--output_dir", str(args.output_dir), *args.flags, "--count"]
    if args.kind == "single":
        words += ["--run", "0"]  # as its tasks do
    done = subprocess.run(
        ["bash", "-c", inner, "bash", *words], env=outside(settings), stdout=subprocess.PIPE, text=True
    )
    if "activated" not in done.stdout.split():
        raise Refusal(
            f"{args.study} cannot be checked: the environment of the runs does not work on this machine, see above; "
            "choose another one, or submit without checks: --no-check"
        )
    count = re.search(r"(\d+)\s+counted", done.stdout)
    if done.returncode or not count:
        raise Refusal(f"{args.study} cannot be run like this; see above")
    return int(count[1])


def resources(args: argparse.Namespace) -> list[str]:
    """Return flags with the CPUs and GPUs of a job, unless other options of sbatch may change them."""
    others = " ".join([*args.sbatch, *(name for name in os.environ if name.startswith("SBATCH_"))]).lower()
    flags = []
    if not re.search(r"cpus|cores|exclusive|ntasks|nodes|(^| )-[cn]", others):
        cpus = args.cpus or DEFAULT_CPUS[args.kind]
        flags.append(f"--job_cpus={args.nodes * cpus}")
    if not re.search(r"gpu|gres|nodes|(^| )-[gn]", others):
        gpus = int(args.gpus.rpartition(":")[2]) if args.gpus else 0
        flags.append(f"--job_gpus={args.nodes * gpus}")
    return flags


def arrays(args: argparse.Namespace, runs: int | None) -> list[tuple[str, int]]:
    """Return the values of ``--array``, each with the number of its first run.

    Args:
        args: The command line.
        runs: Number of runs of the study, None if it was not checked.
    """
    if args.kind == "concurrent":
        return [("", 0)]
    limit = f"%{args.at_once}" if args.at_once else ""
    if args.runs or runs is None:
        wanted = args.runs
        last = max(map(int, re.findall(r"\d+", wanted)))
        if runs is not None and last >= runs:
            raise Refusal(f"--runs {wanted}: the study has runs 0-{runs - 1}")
    else:
        last = runs - 1
        wanted = f"0-{last}"
    most = max_array()
    found = []
    for first in range(0, last + 1, most):
        tasks = within(wanted, first, first + most - 1)
        if tasks:
            found.append((tasks + limit, first))
    return found


def within(runs: str, first: int, last: int) -> str:
    """Return the numbers of the tasks for those of the runs that an array of runs `first` to `last` has."""
    tasks = []
    for part in runs.split(","):
        start, _, end = part.partition("-")
        low = max(int(start), first)
        high = min(int(end or start), last)
        if low < high:
            tasks.append(f"{low - first}-{high - first}")
        elif low == high:
            tasks.append(str(low - first))
    return ",".join(tasks)


def copy_of(args: argparse.Namespace) -> Path:
    """Return the path of the study's copy that the tasks read; its name depends on the contents.

    The study file may be edited while tasks are pending, and be submitted again.
    """
    try:
        contents = args.study.read_bytes()
    except OSError as error:
        raise Refusal(f"study file {args.study} cannot be read ({error.strerror})") from None
    return args.output_dir / "slurm" / f"{args.study.stem}-{hashlib.sha256(contents).hexdigest()[:8]}.yaml"


def max_array() -> int:
    """Return the maximum number of tasks of an array at this site."""
    if not shutil.which("scontrol"):
        return MAX_ARRAY
    shown = subprocess.run(["scontrol", "show", "config"], stdout=subprocess.PIPE, text=True).stdout
    match = re.search(r"^MaxArraySize\s*=\s*(\d+)", shown, re.MULTILINE)
    return int(match[1]) if match else MAX_ARRAY


def exported(sbatch: list[str], settings: dict[str, str]) -> tuple[str, list[str]]:
    """Return the value of ``--export``, and the further options of sbatch without it.

    The batch scripts need the variables of this program even if the user exports none or only some.
    """
    export = "ALL"
    others = []
    for word in sbatch:
        if word.startswith("--export="):
            export = word.partition("=")[2]
        else:
            others.append(word)
    names = export.split(",")
    if "ALL" in names:
        return export, others
    names += sorted(name for name in outside(settings) if name.startswith("INTERREPLAY_"))
    return ",".join(name for name in names if name not in ("NONE", "NIL")), others


def command(
    args: argparse.Namespace, study: Path, array: str, first: int, settings: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the ``sbatch`` command line, and further environment variables."""
    more = {"INTERREPLAY_FIRST_RUN": str(first)} if first else {}
    export, others = exported(args.sbatch, {**settings, **more})
    options = {
        "export": export,
        "job-name": args.name,
        "partition": args.partition,
        "account": args.account,
        "qos": args.qos,
        "constraint": args.constraint,
        "time": args.time,
        "nodes": args.nodes if args.kind == "concurrent" else None,
        "array": array,
        "cpus-per-task": args.cpus,
        "mem": args.mem,
        "gres": args.gpus and f"gpu:{args.gpus}",
        "signal": f"B:USR1@{args.warning}",
        "output": args.output_dir / "slurm" / ("%x-%A_%a.out" if array else "%x-%j.out"),
    }
    given = [f"--{name}={value}" for name, value in options.items() if value]
    words = ["sbatch", "--parsable", *given, *others, str(SCRIPTS[args.kind])]
    words += [str(study), str(args.output_dir), *args.flags]
    return words, more


def hand_in(words: list[str], settings: dict[str, str], results: Path) -> None:
    """Call ``sbatch`` and print how to follow the job."""
    done = subprocess.run(words, env=outside(settings), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise Refusal("sbatch failed, see above; --dry-run shows its command line")
    job = done.stdout.strip().split(";")[0]
    print(f"submitted job {job}; follow: squeue -j {job}   log: {results}/slurm   end: scancel {job}")


if __name__ == "__main__":
    sys.exit(main())
