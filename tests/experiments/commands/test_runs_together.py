"""Studies whose runs share processes: signals and failures; `test_update_group.py` compares results."""

import os
import queue
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from argument_parser import make_parser, resolve_settings
from interreplay.experiments.commands.study import main
from interreplay.experiments.process.signals import Interrupts
from interreplay.experiments.studies.study import Execution, State, TrialFolder
from interreplay.experiments.training.train_loop import Requests
from interreplay.experiments.tune import run_together
from interreplay.experiments.tune.run_together import Worker, shares
from interreplay.rllib import ray_session
from interreplay.runs.state_files.disk import LOCK
from tests.experiments.commands.test_cluster_run import status, steps, study, wait_for  # noqa: F401

WORDS = "--env Pendulum-v1 --hiddens 8 --train_batch_size 8 --learning_starts 10 --buffer_size 100"
WORDS += " --total_env_steps 60 --steps_per_iteration 30 --evaluation_interval 0 --checkpoint_freq 0"


def jobs_of(folder):
    """Return the folders and settings of runs with seeds 0 and 1."""
    jobs = []
    for seed in range(2):
        given = make_parser().given([*WORDS.split(), "--seed", str(seed)])
        jobs.append((folder / str(seed), vars(resolve_settings(given))))
    return jobs


def train_together(jobs, prepare=lambda runs: None):
    """Train runs in threads of this process; `prepare` receives them before they start. Return the runs."""
    ray_session.prepare_host(1, 0, "cpu")
    notes = []
    meeting = run_together.UpdateBarrier(len(jobs), notes.append)
    runs = [run_together.RunInThread(*job, meeting) for job in jobs]
    prepare(runs)
    events = queue.SimpleQueue()
    with ThreadPoolExecutor(len(runs)) as pool:
        list(pool.map(lambda run: run_together.execute(run, events, True), runs))
    assert notes == [f"{len(jobs)} runs learn as one"]
    return runs


def workers_of(process):
    """Return the processes that train runs."""
    children = psutil.Process(process.pid).children()
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.slow
def test_killed_processes_failed_runs_and_signals(study, tmp_path, monkeypatch, capsys):  # noqa: F811
    """Two processes train two runs each; one run of each process breaks, and the other one continues."""
    kinds = ("Wait", "Bug", "Pause", "Nan")
    file = study(600, envs=str([f"envs_for_studies:{kind}-v0" for kind in kinds]), max_failures="1")
    results = tmp_path / "r"
    folders = [results / f"SAC_envs_for_studies-{kind}-v0_Uniform_s0" for kind in kinds]
    stopped, bad, killed, permanent = folders
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("GO_FILE", str(tmp_path / "go"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ended = threading.Event()
    process = SimpleNamespace(pid=os.getpid(), poll=lambda: ended.is_set() or None)

    def send_signals():
        try:
            wait_for(lambda: len(workers_of(process)) == 2, process)
            os.kill(process.pid, signal.SIGUSR1)  # a process that starts survives it; all runs save
            wait_for(lambda: all((folder / "progress.csv").exists() for folder in folders), process)
            wait_for(lambda: status(permanent)["state"] == "failed", process)
            wait_for((killed / "checkpoint_00000300").exists, process)  # then it waits in its 350th step
            for worker in workers_of(process):
                if str(killed / LOCK) in [file.path for file in worker.open_files()]:
                    worker.kill()
            wait_for(lambda: status(killed)["state"] == "finished" and len(steps(stopped)) > 1, process)
            os.kill(process.pid, signal.SIGTERM)
            time.sleep(1.0)
        finally:
            (tmp_path / "go").touch()  # the run that waits in its 350th step receives the signal there

    # The command runs in the main thread, which receives the signals. A signal outside of the command has no effect.
    with Interrupts(lambda: None, silent=True), ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send_signals)
        code = main(["--together", "2", "--results_dir", str(results), str(file)])
        ended.set()
        sent.result()
    out = capsys.readouterr().out
    assert code == 75, out
    assert out.count("2 runs learn as one") == 2 and "a run learns alone" in out
    assert "its process ended with SIGKILL" in out and "SIGUSR1" not in out
    assert "the simulator broke" in out and "rewards holds nan" in out
    assert status(killed)["starts"] == 2 and status(permanent)["starts"] == 1
    assert status(stopped)["state"] == "interrupted" and status(permanent)["state"] == "failed"
    # The broken runs are retried and fail again.
    assert main(["--resume", str(results), "--together", "1"]) == 1
    assert [status(folder)["state"] for folder in folders] == ["finished", "failed", "finished", "failed"]
    for folder in (stopped, killed):
        assert steps(folder) == list(range(100, 601, 100))


@pytest.mark.slow
@pytest.mark.parametrize("request_", ["stop", "save"])
def test_runs_that_learn_as_one_stop_and_save_after_equally_many_updates(request_, tmp_path, monkeypatch):
    """The first run handles the request before an update for which the other run waits already."""
    jobs = jobs_of(tmp_path)
    saved = []

    def started(request=""):
        def prepare(runs):
            def progress(steps):
                if steps == 20 and request:
                    group = runs[0].training.algo.learner._group
                    while len(group._batches) < 1:
                        time.sleep(0.01)
                    for run in runs:
                        run.ask(request)

            runs[0]._on_progress = progress

        runs = train_together(jobs, prepare)
        return [(run.end["state"], run.training.algo.env_steps, run.training.algo.learner.updates) for run in runs]

    def save(folder, steps, *arguments):
        saved.append(steps)
        return Path(save_run(folder, steps, *arguments))

    save_run = TrialFolder.save
    monkeypatch.setattr(TrialFolder, "save", save)
    ends = started(request_)
    if request_ == "stop":
        assert ends == [("interrupted", 21, 11)] * 2
        ends = started()
    else:
        assert saved[:2] == [21, 21]
    assert ends == [("finished", 60, 51)] * 2


def test_runs_handle_requests_after_equally_many_updates():
    requests = Requests()
    assert [requests.due(run, 0, before_draw=True) for run in "ab"] == ["", ""]
    assert requests.due("a", 1, before_draw=True) == ""
    requests.save()
    assert requests.due("b", 1) == "", "a has begun its second update"
    assert [requests.due("a", 2), requests.due("a", 2)] == ["save", ""]
    requests.stop()
    assert requests.due("a", 2) == "stop" and requests.due("b", 1, before_draw=True) == ""
    assert [requests.due("b", 2), requests.due("b", 2)] == ["stop", "stop"]


def test_draws_of_other_sizes_do_not_delay_a_request():
    """One run draws single batches and the other one twenty at once; both make their updates together."""
    requests = Requests()
    for updates in range(100):
        assert requests.due("single", updates, before_draw=True) == ""
        if updates % 20 == 0:
            assert requests.due("twenty", updates, before_draw=True) == ""
    requests.stop()
    assert [requests.due("twenty", 100), requests.due("single", 100)] == ["stop", "stop"]


class StubRun:
    """Run that ends as its settings demand, without an algorithm."""

    starts: list[str] = []

    def __init__(self, folder, settings, meeting):
        self.folder = TrialFolder(folder)
        self.how = settings["end"]
        self.failed = False

    def leave(self):
        pass

    def results(self):
        self.starts.append(self.how)
        if self.how == "crash":
            raise RuntimeError("the simulator broke")
        if self.how == "permanent":
            self.end = self.folder.note(state=State.FAILED, env_steps=70, reason="an invalid setting")
            return
        self.end = self.folder.note(state=State.INTERRUPTED)
        yield {"env_steps": 1}


@pytest.fixture
def stubs(monkeypatch):
    """Replace runs by `StubRun`s in `run_together.work`, which trains in this process."""
    monkeypatch.setattr(run_together, "RunInThread", StubRun)
    monkeypatch.setattr(run_together.os, "setpgid", lambda *numbers: None)
    monkeypatch.setattr(run_together.ray_session, "prepare_host", lambda *numbers: None)
    monkeypatch.setattr(StubRun, "starts", [])


@pytest.mark.usefixtures("stubs")
def test_only_runs_that_crashed_are_retried(tmp_path):
    jobs = [(tmp_path / end, {"end": end, "device": "cpu"}) for end in ("max_time", "permanent", "crash")]
    events = []
    with pytest.raises(SystemExit) as exit:
        run_together.work(jobs, Execution(max_failures=2), SimpleNamespace(send=events.append))
    assert exit.value.code == 0
    assert sorted(StubRun.starts) == ["crash", "crash", "crash", "max_time", "permanent"]
    ends = [(event, name) for event, name, _ in events if event not in ("start", "result")]
    expected = [("end", "max_time"), ("end", "permanent"), ("fail", "crash"), ("retry", "crash"), ("retry", "crash")]
    assert sorted(ends) == expected
    assert [figures["env_steps"] for event, name, figures in events if (event, name) == ("end", "permanent")] == [70]


@pytest.mark.usefixtures("stubs")
def test_a_request_while_runs_are_prepared_is_not_lost(tmp_path, monkeypatch):
    def prepare(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return StubRun(*arguments)

    monkeypatch.setattr(run_together, "RunInThread", prepare)
    with pytest.raises(SystemExit) as exit:
        run_together.work([(tmp_path, {"end": "max_time", "device": "cpu"})], Execution(), SimpleNamespace(send=print))
    assert exit.value.code == 75 and not StubRun.starts


def test_a_request_while_a_process_is_replaced_is_not_lost(tmp_path, monkeypatch):
    started = []

    class Signals(list):
        def clear(self):
            worker.signal(signal.SIGTERM)
            super().clear()

    def start(**options):
        started.append(options["target"])
        return SimpleNamespace(start=list, join=list, pid=0, exitcode=1)

    context = SimpleNamespace(Pipe=Pipe, Process=start)
    monkeypatch.setattr(run_together.multiprocessing, "get_context", lambda method: context)
    worker = Worker([(tmp_path, {})], Execution(max_failures=2), queue.SimpleQueue())
    worker._signals = Signals()
    worker.start()
    worker.join()
    assert len(started) == 1


def test_a_process_that_is_started_again_leaves_out_runs_that_have_ended(tmp_path):
    jobs = [(tmp_path / name, {}) for name in ("timed", "broken", "running")]
    passed = queue.SimpleQueue()
    worker = Worker(jobs, Execution(together=1), passed)
    events, sender = Pipe(duplex=False)
    sent = [
        ("start", "timed", {}),
        ("end", "timed", {"state": State.INTERRUPTED}),
        ("fail", "broken", {"reason": "bug"}),
    ]
    sent += [("retry", "running", {"reason": "bug"}), "2 runs learn as one"]
    for each in sent:
        sender.send(each)
    sender.close()
    worker.receive(events)
    assert [passed.get() for _ in sent] == sent and [folder.name for folder, _ in worker.jobs] == ["running"]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, ["a0 a1 a2 b0 b1 b2"]), (2, ["a0 a1 a2", "b0 b1 b2"]), (4, ["a0", "a1 a2", "b0", "b1 b2"])],
)
def test_runs_with_equal_settings_share_a_process(count, expected):
    jobs = []
    for seed in range(3):
        for env in "ab":
            jobs.append((Path(f"{env}{seed}"), {"env": env, "seed": seed, "buffer": "NMER"}))
    found = [" ".join(str(folder) for folder, _ in share) for share in shares(jobs, count)]
    assert found == expected
