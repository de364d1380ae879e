"""The parts of the batch scripts that run without Slurm: environments, scratch folders, signals, requeueing."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[2]
TMP = "/tmp"
COMMON = HOME / "cluster_deployment/common.sh"
SCRIPTS = [
    *sorted((HOME / "cluster_deployment").rglob("*.sh")),
    *sorted((HOME / "tests").rglob("*.sh")),
    HOME / ".ci/run",
    *(HOME / "cluster_deployment/container/bin" / name for name in ("activate", "in_image", "python", "ray")),
    HOME / "env/install_in_image.sh",
]
SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or shutil.which("shellcheck")

# A driver like cluster_run.py: it prints signals, and exits with 75 after SIGTERM.
DRIVER = """
import signal, sys, time
def note(number, frame):
    print(f"driver got {signal.Signals(number).name}", flush=True)
    if number == signal.SIGTERM:
        sys.exit(75)
time.sleep(0.5)
signal.signal(signal.SIGUSR1, note)
signal.signal(signal.SIGTERM, note)
print("driver ready", flush=True)
for _ in range(200):
    time.sleep(0.1)
"""
WATCHED = f"""
. "{COMMON}"
warned_early=0
trap 'warned_early=1' USR1
[ -z "${{EARLY:-}}" ] || kill -USR1 $$
export RAY_TMPDIR="$PWD/scratch"
if [ -n "${{SIGNAL_BEFORE:-}}" ]; then
    set -o functrace
    trap '[ "$BASH_COMMAND" != "$SIGNAL_BEFORE" ] || kill -TERM $$' DEBUG
fi
watch "$@"
echo "code $code"
finish "$code"
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Set up a job's environment, with stubs of Slurm's programs."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "driver.py").write_text(DRIVER)
    (tmp_path / "watched.sh").write_text(WATCHED)
    program(tmp_path / "bin/scontrol", f'echo "scontrol $*" >>{tmp_path}/calls')
    program(tmp_path / "bin/sleep", 'case $1 in 120) exit ;; 1) set 0.05 ;; esac; exec /bin/sleep "$@"')
    ends(tmp_path, 3600)
    for name in [name for name in os.environ if name.startswith(("SLURM_", "INTERREPLAY_", "CONDA", "MAMBA"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("INTERREPLAY_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(path, text):
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def ends(job, seconds):
    """Set the end of the job that the scheduler reports."""
    end = f"date -d @$(($(date +%s) + {seconds})) +%FT%T"
    program(job / "bin/squeue", f'case "$*" in *%e) {end} ;; *%T) echo "${{STATE:-RUNNING}}" ;; esac')


def bash(text, **env):
    words = ["bash", "-uc", f'. "{COMMON}"\n{text}']
    return subprocess.run(words, capture_output=True, text=True, timeout=300, env={**os.environ, **env})


def script(name, *arguments, **env):
    """Run a script of `cluster_deployment`, without variables that are empty."""
    variables = {name: value for name, value in {**os.environ, **env}.items() if value}
    path = HOME / "cluster_deployment" / name
    return subprocess.run(["bash", path, *arguments], env=variables, capture_output=True, text=True, timeout=300)


class Watched:
    """A driver under `watch`, to which signals can be sent."""

    def __init__(self, job, *command):
        self.out = job / "out"
        with self.out.open("w") as file:
            self.process = subprocess.Popen(["bash", "watched.sh", *command], stdout=file, stderr=file)

    def until(self, text, seconds=300):
        end = time.monotonic() + seconds
        while text not in self.out.read_text():
            assert time.monotonic() < end, self.out.read_text()
            time.sleep(0.02)

    def end(self):
        return self.process.wait(timeout=300), self.out.read_text()


@pytest.mark.slow
def test_bash_and_shellcheck_accept_every_script():
    for path in SCRIPTS:
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stderr) == (0, ""), path
    if SHELLCHECK is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run([SHELLCHECK, "-x", *SCRIPTS], cwd=HOME, capture_output=True, text=True, timeout=120)
    assert done.stdout == ""


def test_no_script_ends_the_ray_of_other_jobs():
    for path in SCRIPTS:
        code = [line.split("#")[0] for line in path.read_text().splitlines()]
        assert not any(word in line for line in code for word in ("ray stop", "pkill", "killall")), path


def test_the_scratch_folder_is_short_and_local(job, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(job / "too-long-a-name-for-sockets-in-it-by-far"))
    assert bash("choose_scratch").stdout == f"{TMP}/ir12.XXXX\n"
    array = bash("choose_scratch", SLURM_ARRAY_JOB_ID="11", SLURM_ARRAY_TASK_ID="3")
    assert array.stdout == f"{TMP}/ir11_3.XXXX\n"
    done = bash("choose_scratch", INTERREPLAY_SCRATCH=str(job / "long-enough-to-be-too-long"))
    assert done.returncode == 1 and "longer than 38 characters" in done.stderr and "--scratch" in done.stderr
    assert "/none cannot be written to" in bash("choose_scratch", INTERREPLAY_SCRATCH="/none").stderr
    program(job / "bin/stat", "case $* in */dev/shm) echo tmpfs ;; *) echo nfs ;; esac")
    assert bash("choose_scratch").stdout == "/dev/shm/ir12.XXXX\n", "network file systems are skipped"


def test_isolation(job):
    text = 'isolate; env; stat -c "mode %a" "$RAY_TMPDIR"; rm -rf "$RAY_TMPDIR"'
    shown = [bash(text, RAY_ADDRESS="elsewhere", INTERREPLAY_SCRATCH=TMP).stdout for _ in range(2)]
    values = [dict(line.partition("=")[::2] for line in out.splitlines()) for out in shown]
    assert all("RAY_ADDRESS" not in env and env["SLURM_EXPORT_ENV"] == "ALL" for env in values)
    assert len({env["RAY_AUTH_TOKEN"] for env in values}) == 2 and len(values[0]["RAY_AUTH_TOKEN"]) == 64
    assert values[0]["RAY_AUTH_MODE"] == "token" and "mode 700" in shown[0]
    folders = [env["RAY_TMPDIR"] for env in values]
    assert all(re.fullmatch(rf"{TMP}/ir12\.\w{{4}}", folder) for folder in folders) and len(set(folders)) == 2


def test_isolation_never_uses_an_existing_folder(job):
    base = Path(tempfile.mkdtemp(prefix="ir", dir=TMP))  # pytest's own folders are too long
    try:
        for name in ("ir12", "ir12.XXXX", "ir120.abcd"):
            (base / name).mkdir()
        (base / "ir12.left").mkdir()
        shown = bash('isolate; echo "$RAY_TMPDIR"', INTERREPLAY_SCRATCH=str(base)).stdout.strip()
        assert shown not in ("", str(base / "ir12"))
        left = {path.name for path in base.iterdir()}
        assert left == {"ir12", "ir120.abcd", Path(shown).name}, "only what this job left before is removed"
    finally:
        shutil.rmtree(base)


def test_a_virtual_environment(job):
    (job / "env/bin").mkdir(parents=True)
    (job / "env/bin/activate").write_text('PATH="$PWD/env/bin:$PATH"; echo "$UNSET_VARIABLE"\n')
    program(job / "env/bin/python", "exit 0")
    done = bash("activate; command -v python", INTERREPLAY_VENV=str(job / "env"))
    assert done.stdout.strip() == f"{job}/env/bin/python", done.stderr
    assert "not a virtual environment" in bash("activate", INTERREPLAY_VENV=str(job / "none")).stderr
    (job / "broken" / "bin").mkdir(parents=True)
    (job / "broken" / "bin" / "activate").write_text("return 1\n")
    assert "broken/bin/activate failed, see above" in bash("activate", INTERREPLAY_VENV=str(job / "broken")).stderr


@pytest.mark.parametrize("exe", ["conda", "micromamba"])
def test_a_conda_environment(job, exe):
    (job / "elsewhere").mkdir()
    hook_words = "shell.bash hook" if exe == "conda" else "shell hook --shell bash"
    hook = f'{exe}() {{ echo "{exe} $* $UNSET"; [ "$2" = good ] && PATH="$PWD/env/bin:$PATH"; }}'
    program(job / "elsewhere" / exe, f"[ \"$*\" = '{hook_words}' ] && echo '{hook}'")
    (job / "env/bin").mkdir(parents=True)
    program(job / "env/bin/python", "exit 0")
    named = {"INTERREPLAY_CONDA_EXE": str(job / "elsewhere" / exe)}
    done = bash("activate; command -v python", INTERREPLAY_CONDA="good", **named)
    assert done.stdout.split() == [exe, "activate", "good", f"{job}/env/bin/python"], done.stderr
    bad = bash("activate", INTERREPLAY_CONDA="bad", **named)
    assert bad.returncode == 1 and "conda environment bad cannot be activated" in bad.stderr


def test_without_conda(job):
    (job / "only").mkdir()
    for name in ("date", "basename"):
        (job / "only" / name).symlink_to(shutil.which(name))
    done = subprocess.run(
        [shutil.which("bash"), "-uc", f'. "{COMMON}"; activate'],
        env={"PATH": str(job / "only"), "INTERREPLAY_HOME": str(job), "INTERREPLAY_CONDA": "base"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "--conda-exe" in done.stderr


def test_modules_and_an_environment_without_ray(job):
    program(job / "bin/python", "exit 0")
    done = bash('module() { echo "$*"; [ "$2" != bad ]; }; activate', INTERREPLAY_MODULES="python/3.11 cuda")
    assert done.stdout.splitlines() == ["load python/3.11", "load cuda"]
    bad = bash("module() { false; }; activate", INTERREPLAY_MODULES="bad")
    assert bad.returncode == 1 and "module avail" in bad.stderr
    program(job / "bin/python", "exit 1")
    done = bash("activate")
    assert done.returncode == 1 and "cannot import ray" in done.stderr and "--venv or --conda" in done.stderr


def test_a_driver_that_ends_by_itself_is_not_requeued(job):
    ends = {code: f"ended with exit code {code}" for code in (0, 1, 2)}
    ends[75] = "(max_time): not requeued; submit the same command again"
    for code, line in ends.items():
        found, out = Watched(job, "bash", "-c", f"exit {code}").end()
        assert found == code and line in out
        assert not (job / "calls").exists()


@pytest.mark.slow
def test_a_warning_with_time_left_saves_and_continues(job):
    """A warning before the driver has its signal handlers does not end it."""
    watched = Watched(job, "python3", "driver.py")
    time.sleep(0.3)
    watched.process.send_signal(10)
    watched.until("driver ready")
    watched.process.send_signal(10)
    watched.until("driver got SIGUSR1")
    time.sleep(0.5)
    assert "SIGTERM" not in watched.out.read_text()
    watched.process.terminate()
    assert watched.end()[0] == 75


@pytest.mark.slow
def test_a_warning_shortly_before_the_end_saves_and_stops_in_time(job, monkeypatch):
    monkeypatch.setenv("INTERREPLAY_STOP_BEFORE", "5")
    ends(job, 8)
    watched = Watched(job, "python3", "driver.py")
    watched.until("driver ready")
    watched.process.send_signal(10)
    code, out = watched.end()
    assert code == 75 and out.index("driver got SIGUSR1") < out.index("saving and stopping") < out.index("got SIGTERM")
    assert (job / "calls").read_text() == "scontrol requeue 12\n"


def test_a_warning_during_the_preparations_of_the_job_stops_it_in_time(job, monkeypatch):
    for kind in ("single_process", "concurrent"):
        script = (HOME / f"cluster_deployment/{kind}_deployment/run.sh").read_text()
        assert script.index("trap 'warned_early=1' USR1") < script.index('common.sh" ||')
    monkeypatch.setenv("EARLY", "1")
    ends(job, 30)
    code, out = Watched(job, "/bin/sleep", "20").end()
    assert code == 75 and out.index("warning of the scheduler") < out.index("saving and stopping")
    assert (job / "calls").read_text() == "scontrol requeue 12\n"


def test_a_driver_that_ends_before_its_signal_handlers_is_requeued(job):
    watched = Watched(job, "/bin/sleep", "20")
    time.sleep(0.3)
    watched.process.terminate()
    code, out = watched.end()
    assert code == 75 and "requeueing" in out


@pytest.mark.parametrize("command", ["driver=$!", "trap stop TERM INT"])
def test_a_signal_while_the_driver_starts_stops_it(job, monkeypatch, command):
    monkeypatch.setenv("SIGNAL_BEFORE", command)
    code, out = Watched(job, "/bin/sleep", "20").end()
    assert code == 75 and "saving and stopping" in out
    assert (job / "calls").read_text() == "scontrol requeue 12\n"


def test_a_hanging_driver_is_killed_before_the_job_ends(job):
    ends(job, 27)
    program(job / "bin/sleep", f'echo "$1" >>{job}/slept; exec /bin/sleep 0.2')
    watched = Watched(job, "bash", "-c", "trap '' TERM; echo ready; for i in {1..300}; do /bin/sleep 0.1; done")
    watched.until("ready")
    watched.process.terminate()
    code, out = watched.end()
    assert code == 75 and "requeueing" in out
    assert int((job / "slept").read_text().split()[0]) in (10, 11, 12), "15 s before the end"


STOPPED = "trap 'exit 75' TERM; /bin/sleep 0.1; kill -TERM $PPID; while :; do /bin/sleep 0.02; done"
"""A driver that the batch script's signal stops."""
REQUEUED = "scontrol requeue 12\n"
LATE = "echo try >>tries; [ $(wc -l <tries) = 3 ] && echo"
TASK = {"SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "7"}
REQUEUEING = {
    "a canceled job is not requeued": ({"STATE": "CANCELLED"}, "", "", "", "the scheduler ended this job"),
    "squeue fails": ({}, "echo try >>tries; exit 1", "", REQUEUED, "does not report"),
    "squeue prints nothing": ({}, "echo try >>tries; exit 0", "", REQUEUED, "does not report"),
    "squeue is missing": ({}, None, "", REQUEUED, "does not report"),
    "squeue answers late": ({}, f"{LATE} RUNNING", "", REQUEUED, "requeueing"),
    "squeue answers late that the job ends": ({}, f"{LATE} COMPLETING", "", "", "the scheduler ended this job"),
    "a failed requeue is repeated": ({}, "", "echo x >>calls; [ $(wc -l <calls) = 2 ]", "x\nx\n", "requeueing"),
    "a site that forbids requeueing": ({}, "", "exit 1", "", "submit the same command again"),
    "a task of an array requeues itself only": (TASK, "", "", "scontrol requeue 12_7\n", "requeueing"),
    "requeueing is limited": ({"SLURM_RESTART_COUNT": "100"}, "", "", "", "requeued 100 times already"),
}


@pytest.mark.parametrize(("variables", "squeue", "scontrol", "calls", "line"), REQUEUEING.values(), ids=REQUEUEING)
def test_requeueing(job, monkeypatch, variables, squeue, scontrol, calls, line):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if squeue is None:
        (job / "bin/squeue").unlink()
    elif squeue:
        program(job / "bin/squeue", f'case "$*" in *%e) exit 1 ;; esac; {squeue}')
    if scontrol:
        program(job / "bin/scontrol", scontrol)
    code, out = Watched(job, "bash", "-c", STOPPED).end()
    assert code == 75 and line in out
    assert ((job / "calls").read_text() if (job / "calls").exists() else "") == calls
    if "try >>tries" in (squeue or ""):
        assert (job / "tries").read_text().count("try") == 3


def test_without_an_answer_the_end_is_that_of_the_job_s_start(job):
    end = int(time.time()) + 5_000
    for answer in ("exit 1", "echo", "echo N/A"):
        program(job / "bin/squeue", answer)
        assert 4_000 < int(bash("seconds_left", SLURM_JOB_END_TIME=str(end)).stdout) <= 5_000
        assert bash("seconds_left").stdout == "120\n"


def test_the_end_of_a_task_is_not_that_of_another_task_of_its_array(job):
    """One task of each array has the id of the whole array."""
    now = int(time.time())
    own, other = (f"date -d @{now + seconds} +%FT%T" for seconds in (5_000, 90_000))
    program(job / "bin/squeue", f'case "$*" in *"-j 12_7 "*) {own} ;; *) {other} ;; esac')
    assert 4_000 < int(bash("seconds_left", **TASK).stdout) <= 5_000


def ray_start(job, role, **env):
    """The output of node.sh, including the arguments of Ray."""
    program(job / "bin/ray", 'printf "%s\\n" "ray" "$@"; exit 1')
    program(job / "bin/sleep", "exit 0")
    program(job / "bin/df", "echo Avail; echo ${SHARED_MB:-100000}")
    own = {"INTERREPLAY_HOME": str(HOME), "RAY_TMPDIR": str(job / "scratch"), "SLURM_CPUS_ON_NODE": "4", **env}
    return script("concurrent_deployment/node.sh", role, "10.0.0.1", **own).stdout


@pytest.mark.slow
def test_ray_receives_the_resources_of_the_job(job):
    """A small shared memory holds a small object store."""
    head = ray_start(job, "head", SLURM_MEM_PER_NODE="10000", CUDA_VISIBLE_DEVICES="2,5")
    assert {"--num-cpus=4", "--num-gpus=2", f"--memory={8000 * 2**20 * 9 // 10}"} < set(head.split())
    assert {f"--object-store-memory={2000 * 2**20}", "--include-dashboard=false", "--port=0"} < set(head.split())
    assert "--head" in head and head.count("ray\n") == 1
    per_cpu = ray_start(job, "head", SLURM_MEM_PER_CPU="500", CUDA_VISIBLE_DEVICES="NoDevFiles")
    assert f"--object-store-memory={400 * 2**20}" in per_cpu and "--num-gpus=0" in per_cpu

    assert f"--object-store-memory={160 * 2**20}" in ray_start(job, "head", SLURM_MEM_PER_NODE="10000", SHARED_MB="200")
    assert f"--object-store-memory={80 * 2**20}" in ray_start(job, "head", SLURM_MEM_PER_NODE="10000", SHARED_MB="64")


def test_memory_without_a_limit_is_shared_by_cpus(job):
    output = ray_start(job, "head", SLURM_MEM_PER_NODE="0", SLURM_CPUS_ON_NODE=str(os.cpu_count()))
    total = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1])
    assert f"{total // 1024} MB" in output


def test_ended_daemons_of_a_worker_are_restarted_three_times(job):
    output = ray_start(job, "worker", SLURM_NODEID="3", SLURM_MEM_PER_NODE="10000")
    assert output.count("ray\n") == 4 and output.count("Ray ended with exit code 1") == 4
    assert output.count("--address=10.0.0.1") == 4 and "--head" not in output
    assert f"--temp-dir={job}/scratch/n3" in output


def test_a_worker_s_caches_are_in_its_folder_that_is_removed(job):
    program(job / "bin/ray", 'echo "$MPLCONFIGDIR $TRITON_CACHE_DIR $TORCHINDUCTOR_CACHE_DIR"; exit 1')
    program(job / "bin/sleep", "exit 0")
    own = {"INTERREPLAY_HOME": str(HOME), "RAY_TMPDIR": str(job / "scratch"), "SLURM_NODEID": "3"}
    output = script("concurrent_deployment/node.sh", "worker", "10.0.0.1", **own).stdout
    mine = job / "scratch/n3"
    assert f"{mine}/mpl {mine}/triton {mine}/inductor\n" in output


@pytest.mark.parametrize(("kind", "word"), [("single_process", "--array"), ("concurrent", "STUDY.yaml RESULTS")])
def test_wrong_arguments_of_a_script(job, kind, word):
    done = script(f"{kind}_deployment/run.sh", INTERREPLAY_HOME=str(HOME))
    assert done.returncode == 1 and word in done.stderr and done.stderr.count("\n") == 1


def test_a_missing_repository(job):
    done = script("concurrent_deployment/run.sh", "a", "b", SLURM_SUBMIT_DIR=str(job), INTERREPLAY_HOME="")
    assert done.returncode == 1 and "submit from the repository's folder" in done.stderr
