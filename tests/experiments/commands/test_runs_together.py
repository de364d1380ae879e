"""Studies whose runs share processes: results equal those of separate runs; signals and failures."""

from __future__ import annotations

import os
import signal
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from interreplay.experiments.commands.study import main
from interreplay.experiments.studies.study import Execution
from interreplay.experiments.studies.trial_folder import FAILED, INTERRUPTED, TrialFolder
from interreplay.experiments.tune import run_threads
from interreplay.experiments.tune.run_together import Worker, receive, shares
from interreplay.experiments.tune.study_run import PermanentFailure
from tests.experiments.commands.test_cluster_run import run, start, status, steps, study, table, wait_for  # noqa: F401

EVALUATION = "evaluation/env_runners/episode_return_mean"


@pytest.mark.slow
def test_results_equal_those_of_separate_runs(study, tmp_path):  # noqa: F811
    file = study(200, buffers="[Uniform, NMER]", seeds="2")
    words = ("--max_concurrent", 1, "--results_dir", tmp_path / "alone", file)
    assert run(tmp_path, *words)[0] == 0
    code, out, err = run(tmp_path, "--together", 2, "--results_dir", tmp_path / "together", file)
    assert (code, err) == (0, ""), out
    assert out.count("2 runs learn as one") == 2
    for folder in (tmp_path / "alone").glob("SAC_*"):
        other = tmp_path / "together" / folder.name
        assert steps(other) == steps(folder) == [100, 200] and status(other)["state"] == "finished"
        expected = [float(row[EVALUATION]) for row in table(folder / "progress.csv")]
        found = [float(row[EVALUATION]) for row in table(other / "progress.csv")]
        assert found == pytest.approx(expected, rel=1e-2)


@pytest.mark.slow
def test_sigterm_saves_all_runs_and_a_failed_run_does_not_stop_the_others(study, tmp_path):  # noqa: F811
    file = study(600, envs="['envs_for_studies:Threads-v0', 'envs_for_studies:Bug-v0']", max_failures="0")
    results = tmp_path / "r"
    process = start(tmp_path, "--together", 1, "--results_dir", results, file)
    good, bad = (results / f"SAC_envs_for_studies-{kind}-v0_Uniform_s0" for kind in ("Threads", "Bug"))
    wait_for(lambda: (good / "progress.csv").exists() and len(steps(good)) > 1, process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=500)
    assert process.returncode == 75, out + err
    assert status(good)["state"] == "interrupted" and status(bad)["state"] == "failed"
    assert "the simulator broke" in out and "2 runs learn as one" in out
    code, out, err = run(tmp_path, "--resume", results)
    assert code == 1, out + err  # the broken run is retried and fails again
    assert steps(good) == list(range(100, 601, 100)) and status(good)["state"] == "finished"


def workers_of(process):
    """Return the processes that train runs."""
    return [child for child in psutil.Process(process.pid).children() if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.slow
def test_a_killed_process_is_started_again_and_one_that_starts_is_not_killed_by_a_signal(study, tmp_path):  # noqa: F811
    file = study(400, envs="['envs_for_studies:Threads-v0']", seeds="2")
    results = tmp_path / "r"
    process = start(tmp_path, "--together", 2, "--results_dir", results, file)
    folders = [results / f"SAC_envs_for_studies-Threads-v0_Uniform_s{seed}" for seed in range(2)]
    wait_for(lambda: len(workers_of(process)) == 2, process)
    process.send_signal(signal.SIGUSR1)  # all runs save
    wait_for(lambda: all((folder / "progress.csv").exists() for folder in folders), process)
    workers_of(process)[0].kill()
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, out + err
    assert "its process ended with SIGKILL" in out and "SIGUSR1" not in out
    for folder in folders:
        assert steps(folder) == [100, 200, 300, 400] and status(folder)["state"] == "finished"


class StubRun:
    """Run that ends as its settings demand, without an algorithm."""

    starts: list[str] = []

    def __init__(self, folder, settings, meeting):
        self.folder = TrialFolder(folder)
        self.end = settings["end"]
        self.failed = False
        self.over = ""

    def __enter__(self):
        self.starts.append(self.end)
        return self

    def __exit__(self, *exc):
        pass

    def leave(self):
        pass

    def results(self):
        if self.end == "crash":
            raise RuntimeError("the simulator broke")
        if self.end == "permanent":
            self.folder.note(state=FAILED, env_steps=70)
            raise PermanentFailure("an invalid setting")
        self.over = INTERRUPTED
        self.folder.note(state=INTERRUPTED)
        yield {"env_steps": 1}


def test_only_runs_that_crashed_are_retried(tmp_path, monkeypatch):
    monkeypatch.setattr(run_threads, "RunInThread", StubRun)
    monkeypatch.setattr(run_threads.os, "setpgid", lambda *numbers: None)
    monkeypatch.setattr(run_threads.ray_session, "prepare_host", lambda *numbers: None)
    monkeypatch.setattr(StubRun, "starts", [])
    jobs = [(tmp_path / end, {"end": end, "device": "cpu"}) for end in ("max_time", "permanent", "crash")]
    events = []
    with pytest.raises(SystemExit) as exit:
        run_threads.work(jobs, Execution(max_failures=2), SimpleNamespace(send=events.append))
    assert exit.value.code == 0
    assert sorted(StubRun.starts) == ["crash", "crash", "crash", "max_time", "permanent"]
    ends = [(event, name) for event, name, _ in events if event not in ("start", "result")]
    expected = [("end", "max_time"), ("end", "permanent"), ("fail", "crash"), ("retry", "crash"), ("retry", "crash")]
    assert sorted(ends) == expected
    assert [figures["env_steps"] for event, name, figures in events if (event, name) == ("end", "permanent")] == [70]


def test_a_process_that_is_started_again_leaves_out_runs_that_have_ended(tmp_path):
    jobs = [(tmp_path / name, {}) for name in ("timed", "broken", "running")]
    worker = Worker(jobs, Execution(together=1))
    worker.events, sender = Pipe(duplex=False)
    sent = [("start", "timed", {}), ("end", "timed", {"state": INTERRUPTED}), ("fail", "broken", {"reason": "bug"})]
    sent += [("retry", "running", {"reason": "bug"}), "2 runs learn as one"]
    received = []
    for each in sent:
        sender.send(each)
        receive(worker, lambda *event: received.append(event), received.append)
    assert received == sent and worker.unfinished() == ["running"]


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


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--num_workers", "1"), "--num_workers is 1; expected 0 with --together"),
        (("--scheduler", "asha"), "expected --scheduler fifo"),
        (("--address", "auto"), "expected --address local instead of auto"),
    ],
)
def test_unsupported_settings_of_shared_processes_are_rejected(words, reason, tmp_path, capsys):
    common = ["--envs", "Pendulum-v1", "--output_dir", str(tmp_path / "r"), "--together", "2"]
    with pytest.raises(SystemExit) as exit:
        raise SystemExit(main([*common, *words]))
    assert exit.value.code == 2 and reason in capsys.readouterr().err
    assert not os.path.exists(tmp_path / "r")
